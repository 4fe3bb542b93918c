require "fugit"

STDIN.each_line(chomp: true) do |line|
  expr, zone, start = line.split("|")
  begin
    c = Fugit::Cron.do_parse(expr + " " + zone)
    at, times = EtOrbi::EoTime.parse(start), []
    6.times { times << (at = c.next_time(at)) }
    puts times.map { |t| Time.at(t.to_i).utc.strftime("%Y-%m-%dT%H:%M:%SZ") }.join(" ")
  rescue StandardError => e
    puts "refused " + e.message.tr("|\n", "  ")
  end
end
