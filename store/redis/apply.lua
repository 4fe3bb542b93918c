-- Makes changes. ARGV: the number of keys, the number of changes, the keys, and of each change
--
--   op:1 if:8 key:4 also:4 logs:4   op is 0 keep, 1 remove, 2 put; 8 more if any revision will do; key counts from 1
--   generation blob score           of a put; the blob is without its first two numbers; a new generation and the score for never are empty
--   key generation blob score       of each row beside it
--   hour:namespace name time body   of each record
--
-- The answer has 17 bytes for each change: 1 if it was applied plus 2 if a row was there, the row's revision, that of the first beside.
-- All is worked out first and written then, so that changes see each other, and each key is written once.
local n, changes = tonumber(ARGV[1]), tonumber(ARGV[2])
local have, is, score = {}, {}, {}
for i = 1, n, 4000 do
  local part = call('HMGET', rows, unpack(ARGV, i + 2, min(i + 4001, n + 2)))
  for j = 1, #part do
    have[i + j - 1], is[i + j - 1] = part[j], part[j]
  end
end

-- Revisions go on from the last one or from the clock, whichever is later: a server that took over from one that died, and did
-- not get its last writes, gives none of their revisions again.
local first, us = counter()
if us > first then first = us end
local revision = first

-- put makes one string of a row, and no other: Lua hashes every byte of each.
local function put(i, at)
  revision = revision + 1
  local r, generation = pack('>L', revision), ARGV[at]
  is[i] = r .. (generation == '' and r or generation) .. ARGV[at + 1]
  score[i] = ARGV[at + 2]
  return r
end

local at, out = n + 3, {}
local hours, spaces, logs, logged = {}, {}, {}, false

local function add(lists, key, a, b)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  list[#list + 1] = a
  if b then list[#list + 1] = b end
end

local function log(place, name, time, body)
  revision = revision + 1
  logged = true
  local id = time .. pack('>L', revision)
  local colon = find(place, ':', 1, true)
  local hour, space = sub(place, 1, colon - 1), sub(place, colon + 1)
  hours[hour] = (hours[hour] or 0) + 1
  spaces[place] = true
  add(logs, base .. 'records:' .. place, '0', id .. name)
  add(logs, base .. 'history:' .. space .. '\0' .. name, '0', id .. body)
end

for i = 1, changes do
  local ctl = ARGV[at]
  at = at + 1
  local op, cond, key, also, records = parse('>Bc8I4I4I4', ctl)
  local row = is[key]
  local found = row and sub(row, 1, 8) or zero
  local applied = op >= 8 or cond == found
  op = op % 8
  if not applied then
    out[i] = (row and '\2' or '\0') .. found .. zero
    at = at + (op == 2 and 3 or 0) + 4 * also + 4 * records
  else
    local beside = zero
    if op == 2 then
      found = put(key, at)
      at = at + 3
    elseif op == 1 then
      is[key], found = false, zero
    end
    for j = 1, also do
      local r = put(tonumber(ARGV[at]), at + 1)
      if j == 1 then beside = r end
      at = at + 4
    end
    for j = 1, records do
      log(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
      at = at + 4
    end
    out[i] = (row and '\3' or '\1') .. found .. beside
  end
end
if revision >= exact then return redis.error_reply(spent) end

local sets, dels, enter, due, past, noted, grows = {}, {}, {}, {}, {}, {}, false
local into, from = {}, {} -- the lists of rows by state; those of scheduled rows are not kept
local tally = {} -- namespace → state → rows more than before

local function count(member, state, by)
  local space = namespace(member)
  local states = tally[space]
  if not states then
    states = {}
    tally[space] = states
  end
  states[state] = (states[state] or 0) + by
end

for i = 1, n do
  local o, c = have[i], is[i]
  if o ~= c then
    local member = ARGV[i + 2]
    local was, now = o and byte(o, 37), c and byte(c, 37)
    if c then
      sets[#sets + 1] = member
      sets[#sets + 1] = c
      local bucket = sub(c, 17, 20)
      if score[i] ~= '' then
        add(due, bucket, score[i], member)
        note(noted, c, member)
      elseif o then
        add(past, bucket, member)
      end
      if not o then
        grows = true
        enter[#enter + 1] = '0'
        enter[#enter + 1] = member
      elseif sub(o, 17, 20) ~= bucket then
        add(past, sub(o, 17, 20), member)
      end
    else
      dels[#dels + 1] = member
      add(past, sub(o, 17, 20), member)
    end
    if was ~= now then
      if was then
        count(member, was, -1)
        if was ~= 1 then add(from, was, member) end
      end
      if now then
        count(member, now, 1)
        if now ~= 1 then add(into, now, '0', member) end
      end
    end
  end
end

if not grows and (#sets > 0 or #dels > 0 or logged) then loosen() end
bulk('HSET', rows, sets)
bulk('HDEL', rows, dels)
bulk('ZADD', base .. 'keys', enter)
bulk('ZREM', base .. 'keys', dels)
for bucket, list in pairs(past) do bulk('ZREM', base .. 'due:' .. parse('>I4', bucket), list) end
for bucket, list in pairs(due) do bulk('ZADD', base .. 'due:' .. parse('>I4', bucket), list) end
for state, list in pairs(from) do bulk('ZREM', base .. 'state:' .. state, list) end
for state, list in pairs(into) do bulk('ZADD', base .. 'state:' .. state, list) end
for space, states in pairs(tally) do
  for state, by in pairs(states) do
    local field = state .. ':' .. space
    if by ~= 0 and call('HINCRBY', base .. 'tally', field, by) == 0 then call('HDEL', base .. 'tally', field) end
  end
end
for key, list in pairs(logs) do bulk('ZADD', key, list) end
for hour, by in pairs(hours) do call('HINCRBY', base .. 'hours', hour, by) end
for place in pairs(spaces) do
  local colon = find(place, ':', 1, true)
  call('SADD', base .. 'spaces:' .. sub(place, 1, colon - 1), sub(place, colon + 1))
end
if #noted > 0 then journal(first + 1, us, noted) end
if revision > first then give(revision) end
return table.concat(out)
