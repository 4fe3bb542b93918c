-- Reads keys in their order. ARGV: the list of keys (keys, or state: and a number), the range of keys, the
-- limits of rows and of looks, the prefix of the part behind the namespace (empty: any), the states as bytes,
-- due from and until (empty: no limit), 1 to count rows only, the target of the previous call (index.lua), and
-- labels with their values. The answer is the target if the call has to be repeated, or the
-- last key that was examined (empty: there are no more), the number of matching rows, and key and blob of
-- each.
local list, from, to, limit, looks = base .. ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local begins, states, after, till, count = ARGV[6], {}, tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10] == '1'
local complete, target = settled((counter()), -math.huge, math.huge, ARGV[11])
if not complete then return target end
for i = 1, #ARGV[7] do states[byte(ARGV[7], i)] = true end

local function labelled(blob)
  if #ARGV == 11 then return true end
  local have, at, stop = {}, 42, #blob - parse('>I4', blob, 38)
  while at <= stop do
    local label, value
    label, value, at = parse('>I2c0I2c0', blob, at)
    have[label] = value
  end
  for i = 12, #ARGV, 2 do
    if have[ARGV[i]] ~= ARGV[i + 1] then return false end
  end
  return true
end

local function matches(member, blob)
  if not blob or not states[byte(blob, 37) % 128] then return false end
  if begins ~= '' then
    local name = find(member, '\0', 1, true) + 1
    if sub(member, name, name + #begins - 1) ~= begins then return false end
  end
  if after or till then
    local due = parse('>l', blob, 29)
    if after and due < after or till and due >= till then return false end
  end
  return labelled(blob)
end

local found, room, out = 0, 4194304, {'', 0}
while true do
  local members = call('ZRANGEBYLEX', list, from, to, 'LIMIT', 0, min(500, looks, count and 500 or limit + 1))
  if #members == 0 then
    out[2] = found
    return out
  end
  local blobs = call('HMGET', rows, unpack(members))
  for i = 1, #members do
    looks = looks - 1
    if matches(members[i], blobs[i]) then
      found = found + 1
      if not count then
        out[#out + 1] = members[i]
        out[#out + 1] = blobs[i]
        room = room - #blobs[i]
      end
    end
    if looks == 0 or not count and (found == limit or room <= 0) then
      out[1], out[2] = members[i], found
      return out
    end
  end
  from = '(' .. members[#members]
end
