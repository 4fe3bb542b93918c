-- Moves unchanged entries to a later score, so that no other claim tries to hold their rows. ARGV: the score,
-- and key, score and value of each. The answer has 1 for each entry that was moved, and 0 for the others.
local out = {}
for at = 3, #ARGV, 3 do
  local member, value = ARGV[at], ARGV[at + 2]
  local mine = call('HGET', rows, member) == value and call('ZSCORE', due(value), member) == ARGV[at + 1]
  if mine then call('ZADD', due(value), ARGV[2], member) end
  out[#out + 1] = mine and 1 or 0
end
return out
