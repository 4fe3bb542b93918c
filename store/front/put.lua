-- Sets the positions of rows: key, score (empty: the row needs no attention, or is gone) and value of each.
-- ARGV[2], if not empty, is the owner of the batch that these rows are.
for at = 3, #ARGV, 3 do
  put(ARGV[at], ARGV[at + 1], ARGV[at + 2], call('HGET', rows, ARGV[at]))
end
if ARGV[2] ~= '' then call('HDEL', batches, ARGV[2]) end
settle()
return 1
