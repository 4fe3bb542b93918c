-- Says where rows are: key, score (empty: in no need of attention, or gone), value of each. If ARGV[2] is not empty, they are that batch.
for at = 3, #ARGV, 3 do
  put(ARGV[at], ARGV[at + 1], ARGV[at + 2], call('HGET', rows, ARGV[at]))
end
if ARGV[2] ~= '' then call('HDEL', batches, ARGV[2]) end
settle()
return 1
