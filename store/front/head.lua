-- Prefix of all scripts except enter.lua. KEYS[1] is the prefix of all keys, ARGV[1] the id of the index that
-- the caller knows: an index that was emptied since then has another id, or none.
--
--   sync-id        the id
--   state          hash: level, the lowest criticality of which all rows are in the index; beat, its last sign of life
--   buckets        set of the existing buckets, including former ones
--   due:BUCKET     sorted set: row's key by its visible time
--   rows           hash: row's key → revision (8 bytes), bucket (4 bytes)
--   batches        hash: owner of a batch of rows that are being added → their criticality, and since when
local base, call = KEYS[1], redis.call
if call('GET', base .. 'sync-id') ~= ARGV[1] then
  return redis.error_reply('GONE the index is another one, or none')
end
local rows, state, batches = base .. 'rows', base .. 'state', base .. 'batches'

local function due(value) return base .. 'due:' .. struct.unpack('>I4', value, 9) end

-- older compares the revisions of two values, which Lua's numbers cannot represent.
local function older(a, b)
  local ah, al = struct.unpack('>I4I4', a)
  local bh, bl = struct.unpack('>I4I4', b)
  return ah < bh or ah == bh and al < bl
end

local function clock()
  local t = call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- put sets an entry, unless the existing one is newer; without a score, it deletes the entry. was is the
-- existing value, or false.
local fresh = {}
local function put(member, score, value, was)
  if was and older(value, was) then return false end
  if was and (score == '' or string.sub(was, 9) ~= string.sub(value, 9)) then call('ZREM', due(was), member) end
  if score == '' then
    if was then call('HDEL', rows, member) end
    return was and true
  end
  call('ZADD', due(value), score, member)
  if was ~= value then call('HSET', rows, member, value) end
  if not was then fresh[string.sub(value, 9)] = value end
  return true
end

-- settle adds the buckets that put has used.
local function settle()
  for _, value in pairs(fresh) do call('SADD', base .. 'buckets', (struct.unpack('>I4', value, 9))) end
end
