-- Makes the changes that are not plain: several of one key, those with additional rows, and rare options.
-- ARGV contains the keys, and of each change
--
--   op:1 if:8 key:4 also:4 logs:4 number:4   op is 0 keep, 1 remove, 2 put; plus 8 if any revision will do; key counts from 1
--   generation blob score                    of a put; the blob is without its first two numbers; a new generation and the score for never are empty
--   key generation blob score                of each additional row
--   hour:namespace name time body            of each record
--
-- The answer has 17 bytes for each change: 1 if it was applied plus 2 if there was a row, the row's revision,
-- and the revision of the first additional row. Later changes see the effect of earlier ones.
local have, is, score, keys, revision = {}, {}, {}, at - 1, first
local used = false -- whether a row got a revision, even if a later change removed it
for i = 1, n, 4000 do
  local part = call('HMGET', rows, unpack(ARGV, keys + i, keys + min(i + 3999, n)))
  for j = 1, #part do
    have[i + j - 1], is[i + j - 1] = part[j], part[j]
  end
end
at = at + n

-- set builds each row in a single string: Lua hashes every string that it creates.
local function set(i, at)
  revision, used = revision + 1, true
  local r, generation = pack('>L', revision), ARGV[at]
  is[i] = r .. (generation == '' and r or generation) .. ARGV[at + 1]
  score[i] = ARGV[at + 2]
  return r
end

local out = {}
local hours, spaces, logs, logged = {}, {}, {}, false

local function enroll(hour, space, by)
  hours[hour] = (hours[hour] or 0) + by
  spaces[hour .. ':' .. space] = true
end

local function log(hour, space, name, time, body, sequence)
  logged = true
  local id = time .. pack('>L', sequence)
  enroll(hour, space, 1)
  add(logs, base .. 'records:' .. hour .. ':' .. space, '0', id .. name)
  add(logs, base .. 'history:' .. space .. '\0' .. name, '0', id .. body)
end

for i = 1, changes do
  local ctl = ARGV[at]
  at = at + 1
  local op, cond, key, also, records, number = parse('>Bc8I4I4I4I4', ctl)
  revision = first + number - 1
  local row = is[key]
  local found = row and sub(row, 1, 8) or zero
  local applied = op >= 8 or cond == found
  op = op % 8
  if not applied then
    out[i] = (row and '\2' or '\0') .. found .. zero
    at = at + (op == 2 and 3 or 0) + 4 * also + 4 * records
  else
    local extra = zero
    if op == 2 then
      found = set(key, at)
      at = at + 3
    elseif op == 1 then
      is[key], found = false, zero
    end
    for j = 1, also do
      local r = set(tonumber(ARGV[at]), at + 1)
      if j == 1 then extra = r end
      at = at + 4
    end
    for j = 1, records do
      local place = ARGV[at]
      local colon = find(place, ':', 1, true)
      revision = revision + 1
      log(sub(place, 1, colon - 1), sub(place, colon + 1), ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], revision)
      at = at + 4
    end
    out[i] = (row and '\3' or '\1') .. found .. extra
  end
end

local moved, fields, gone, enter, exit = {}, {}, {}, {}, {} -- moved are rows to add to buckets
for i = 1, n do
  local o, c = have[i], is[i]
  if o ~= c then
    local member = ARGV[keys + i]
    local space, was, now = namespace(member), o and byte(o, 37) % 128, c and byte(c, 37)
    local had = o and indexed(o)
    if c then
      put = true
      fields[#fields + 1] = member
      fields[#fields + 1] = c
      local bucket = sub(c, 17, 20)
      if score[i] ~= '' then
        add(moved, bucket, score[i], member)
      elseif had then
        add(past, bucket, member)
      end
      grows = grows or not o
      if not had then
        enter[#enter + 1] = '0'
        enter[#enter + 1] = member
      elseif sub(o, 17, 20) ~= bucket then
        add(past, sub(o, 17, 20), member)
      end
    else
      gone[#gone + 1] = member
      if had then
        exit[#exit + 1] = member
        add(past, sub(o, 17, 20), member)
      end
    end
    if was ~= now then
      if was then leave(space, was, member) end
      if now then come(space, now, member) end
    end
  end
end
for bucket, list in pairs(moved) do due[#due + 1] = {parse('>I4', bucket), list} end
sets[#sets + 1], dels[#dels + 1], enters[#enters + 1], exits[#exits + 1] = fields, gone, enter, exit
