-- Writes the results of apply.lua and change.lua.

-- The records of replacements. ARGV has of each place:4 number:4, hour, namespace, name, time and body.
for i = at, at + 6 * records - 1, 6 do
  local place, number = parse('>I4I4', ARGV[i])
  if not refused[place] then log(ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], first + number) end
end
at = at + 6 * records

-- The records of ends are stored in batches, except those of refused ends.
local batches = {}
for _, run in ipairs(ended) do
  local hour, space, slot, text, size, before, bad = unpack(run, 1, 7)
  if bad then
    local j, kept = before, {}
    each(text, 1, function(_, _, _, _, whole)
      j = j + 1
      if not bad[j] then kept[#kept + 1] = whole end
    end)
    text, size = table.concat(kept), #kept
  end
  if size > 0 then
    enroll(hour, space, size)
    batches[#batches + 1] = {hour, space, slot .. pack('>LI2', first, size) .. text}
  end
end
if first + numbers >= exact then return redis.error_reply(spent) end

local function some(lists)
  for _, list in ipairs(lists) do
    if #list > 0 then return true end
  end
  return false
end
local wrote = put or used or logged or #batches > 0 or some(dels)
if not grows and wrote then loosen() end
for _, list in ipairs(sets) do bulk('HSET', rows, list) end
for _, list in ipairs(dels) do bulk('HDEL', rows, list) end
for _, list in ipairs(enters) do bulk('ZADD', base .. 'keys', list) end
for _, list in ipairs(exits) do bulk('ZREM', base .. 'keys', list) end
for bucket, list in pairs(past) do bulk('ZREM', base .. 'due:' .. parse('>I4', bucket), list) end
for i = 1, #due do bulk('ZADD', base .. 'due:' .. due[i][1], due[i][2]) end
for state, list in pairs(from) do bulk('ZREM', base .. 'state:' .. state, list) end
for state, list in pairs(into) do bulk('ZADD', base .. 'state:' .. state, list) end
for space, states in pairs(tally) do
  for state, by in pairs(states) do
    local field = state .. ':' .. space
    if by ~= 0 and call('HINCRBY', base .. 'tally', field, by) == 0 then call('HDEL', base .. 'tally', field) end
  end
end
for key, list in pairs(logs) do bulk('ZADD', key, list) end
for _, batch in ipairs(batches) do call('ZADD', base .. 'batches:' .. batch[1] .. ':' .. batch[2], '0', batch[3]) end

-- The marks of the names in the batches. ARGV has of each hour:namespace, part and text. Those of refused
-- ends do no harm if the hour has other records: a reader of a mark looks for the record.
for i = at, at + 3 * marks - 1, 3 do
  if spaces[ARGV[i]] then call('APPEND', base .. 'marks:' .. ARGV[i] .. ':' .. ARGV[i + 1], ARGV[i + 2]) end
end
for hour, by in pairs(hours) do call('HINCRBY', base .. 'hours', hour, by) end
for place in pairs(spaces) do
  local colon = find(place, ':', 1, true)
  call('SADD', base .. 'spaces:' .. sub(place, 1, colon - 1), sub(place, colon + 1))
end
if fresh > last and nears == 0 then fresh = first + numbers + 1 end
if put then journal(last, us, ARGV[1], ARGV[2]) end
local given = 0
if numbers > 0 and wrote then
  given = first + numbers
  give(given)
end
return pack('>LL', first, given) .. table.concat(out) .. table.concat(failed)
