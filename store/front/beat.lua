-- Renews the beat of the index, and reports how much of the index is filled. ARGV: the minimal beat of an
-- index that has lost nothing; the lowest criticality at which the caller found no unmarked row; the age in
-- ms at which batches are abandoned; and, to begin a batch, its owner and criticality. The answer is the
-- level, the beat, and the owners of abandoned batches.
local now = clock()
local beat = tonumber(call('HGET', state, 'beat') or '0')
if beat < tonumber(ARGV[2]) then
  return redis.error_reply('GONE the index has lost what it knew for a while')
end
beat = string.format('%.0f', math.max(now, beat))
call('HSET', state, 'beat', beat)
local out = {'', beat}
local level = tonumber(ARGV[3])
local open = call('HGETALL', batches)
for i = 1, #open, 2 do
  local criticality, since = string.match(open[i + 1], '^(%d+) (%d+)$')
  level = math.max(level, criticality + 1) -- its rows are marked, but may not be in the index yet
  if now - since > tonumber(ARGV[4]) then out[#out + 1] = open[i] end
end
local was = tonumber(call('HGET', state, 'level') or '10')
if level < was then
  call('HSET', state, 'level', level)
  was = level
end
out[1] = was
if ARGV[5] then call('HSET', batches, ARGV[5], ARGV[6] .. ' ' .. string.format('%.0f', now)) end
return out
