-- Reads the first entries of buckets. ARGV: the score at which to end, the limit for each bucket, and of each
-- bucket its number, and the score and the key that its entries come after (empty score: from the start). The
-- answer is the level, and for each bucket a list: whether more follow, and key, score and value of each
-- entry.
local till, count = ARGV[2], tonumber(ARGV[3])

-- before compares bytes: Lua's own < uses the server's locale.
local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- rank returns the index of the first entry after a position.
local function rank(key, score, member)
  local lo, hi = call('ZCOUNT', key, '-inf', '(' .. score), call('ZCOUNT', key, '-inf', score)
  while lo < hi do
    local mid = math.floor((lo + hi) / 2)
    if before(member, call('ZRANGE', key, mid, mid)[1]) then hi = mid else lo = mid + 1 end
  end
  return lo
end

local out = {call('HGET', state, 'level') or '10'}
for at = 4, #ARGV, 3 do
  local key = base .. 'due:' .. ARGV[at]
  local page
  if ARGV[at + 1] == '' then
    page = call('ZRANGEBYSCORE', key, '-inf', till, 'WITHSCORES', 'LIMIT', 0, count + 1)
  else
    local lo, hi = rank(key, ARGV[at + 1], ARGV[at + 2]), call('ZCOUNT', key, '-inf', till)
    page = lo < hi and call('ZRANGE', key, lo, math.min(lo + count, hi - 1), 'WITHSCORES') or {}
  end
  local n = #page / 2
  local part = {n > count and 1 or 0}
  n = math.min(n, count)
  for first = 1, n, 1000 do
    local members = {}
    for i = first, math.min(first + 999, n) do members[#members + 1] = page[2 * i - 1] end
    local values = call('HMGET', rows, unpack(members))
    for i = 1, #members do
      if values[i] and due(values[i]) == key then
        part[#part + 1] = members[i]
        part[#part + 1] = page[2 * (first + i - 1)]
        part[#part + 1] = values[i]
      else
        call('ZREM', key, members[i]) -- a part of the index was lost: nothing else would delete this entry
      end
    end
  end
  out[#out + 1] = part
end
return out
