-- Writes the results of apply.lua and change.lua.

-- The records of replacements. ARGV has of each place:4 number:4, hour, namespace, name, time and body.
for i = at, at + 6 * records - 1, 6 do
  local place, number = parse('>I4I4', ARGV[i])
  if not refused[place] then log(ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], first + number) end
end

-- The records of ends are stored in batches, except if the end was refused, or if the timer already has a
-- record in the hour.
local batches = {}
for _, run in ipairs(ended) do
  local hour, space, slot, text, size, before, a, bad = unpack(run, 1, 8)
  local members, odd = {}, bad
  for j = 1, size do members[j] = ARGV[a + 2 * j - 2] end
  local had = call('HMGET', base .. 'ended:' .. hour, unpack(members))
  for j = 1, size do odd = odd or had[j] end
  local marks = {ARGV, a, a + 2 * size - 1}
  if odd then
    local j, list, kept = 0, {}, {}
    each(text, 1, function(number, time, name, body, whole)
      j = j + 1
      if bad and bad[before + j] then return end
      if had[j] then return log(hour, space, name, time, body, first + number) end
      kept[#kept + 1] = whole
      list[#list + 1] = members[j]
      list[#list + 1] = time
    end)
    text, size, marks = table.concat(kept), #kept, {list, 1, #list}
  end
  if size > 0 then
    enroll(hour, space, size)
    batches[#batches + 1] = {hour, space, slot .. pack('>LI2', first, size) .. text, marks}
  end
end
if first + numbers >= exact then return redis.error_reply(spent) end

if not grows and (#sets > 0 or #dels > 0 or logged) then loosen() end
bulk('HSET', rows, sets)
bulk('HDEL', rows, dels)
bulk('ZADD', base .. 'keys', enter)
bulk('ZREM', base .. 'keys', dels)
for bucket, list in pairs(past) do bulk('ZREM', base .. 'due:' .. parse('>I4', bucket), list) end
for i = 1, #due do
  local to = due[i]
  call('ZADD', base .. 'due:' .. to[1], unpack(to[2], to[3], to[4]))
end
for state, list in pairs(from) do bulk('ZREM', base .. 'state:' .. state, list) end
for state, list in pairs(into) do bulk('ZADD', base .. 'state:' .. state, list) end
for space, states in pairs(tally) do
  for state, by in pairs(states) do
    local field = state .. ':' .. space
    if by ~= 0 and call('HINCRBY', base .. 'tally', field, by) == 0 then call('HDEL', base .. 'tally', field) end
  end
end
for key, list in pairs(logs) do bulk('ZADD', key, list) end
for _, batch in ipairs(batches) do
  local hour, space, text, marks = unpack(batch)
  call('ZADD', base .. 'batches:' .. hour .. ':' .. space, '0', text)
  call('HSET', base .. 'ended:' .. hour, unpack(marks[1], marks[2], marks[3]))
end
for hour, by in pairs(hours) do call('HINCRBY', base .. 'hours', hour, by) end
for place in pairs(spaces) do
  local colon = find(place, ':', 1, true)
  call('SADD', base .. 'spaces:' .. sub(place, 1, colon - 1), sub(place, colon + 1))
end
if #due > 0 then journal(last, us, ARGV[1], ARGV[2]) end
if numbers > 0 and (#sets > 0 or #dels > 0 or logged) then give(first + numbers) end
return pack('>L', first) .. table.concat(out) .. table.concat(failed)
