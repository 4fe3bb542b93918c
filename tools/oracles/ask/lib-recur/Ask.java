import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.StringJoiner;
import java.util.TimeZone;
import java.util.TreeSet;
import org.dmfs.rfc5545.DateTime;
import org.dmfs.rfc5545.recur.InvalidRecurrenceRuleException;
import org.dmfs.rfc5545.recur.RecurrenceRule;
import org.dmfs.rfc5545.recur.RecurrenceRuleIterator;

public class Ask {
	public static void main(String[] args) throws Exception {
		BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
		for (String line; (line = in.readLine()) != null;) {
			String[] q = line.split("\\|");
			String[] lines = q[0].split(" RRULE:");
			StringJoiner out = new StringJoiner(" ");
			try {
				String begin = lines[0].substring(lines[0].lastIndexOf(':') + 1);
				RecurrenceRuleIterator times = new RecurrenceRule(lines[1]).iterator(DateTime.parse(TimeZone.getTimeZone(q[1]), begin));
				long start = Instant.parse(q[2]).toEpochMilli();
				TreeSet<Long> all = new TreeSet<>();
				for (int i = 0; i < 5000 && all.size() < 12 && times.hasNext(); i++) {
					long at = times.nextMillis();
					if (at > start) {
						all.add(at);
					}
				}
				all.stream().limit(6).forEach(at -> out.add(Instant.ofEpochMilli(at).toString()));
				System.out.println(out);
			} catch (InvalidRecurrenceRuleException | IllegalArgumentException | IllegalStateException e) {
				System.out.println("refused " + String.valueOf(e.getMessage()).replaceAll("\\s+", " ").replaceAll(" org\\.\\S+", ""));
			}
		}
	}
}
