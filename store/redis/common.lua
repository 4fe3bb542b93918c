-- Prefix of all scripts. KEYS[1] is the base that all keys of the shard begin with, KEYS[2] that base, a dash,
-- the id of the store, a dash, and the highest revision of the shard that the caller knows; no key has these
-- names itself (script.go).
local base = KEYS[1]
local rows, heads, entries = base .. 'rows', base .. 'journal', base .. 'journal:rows'
local ARGV = ARGV
local call, sub, byte, char, find, floor, min = redis.call, string.sub, string.byte, string.char, string.find, math.floor, math.min
local pack, parse, unpacked = struct.pack, struct.unpack, cmsgpack.unpack
local zero = '\0\0\0\0\0\0\0\0'

-- The field id of the rows has the id of the store, which the caller appends to KEYS[2]. Without it, or with
-- another one, the content of the store is gone, and the script must neither write nor answer: an answer
-- would be that nothing is there.
local id, known = string.match(KEYS[2], '^(.*)-(%d+)$', #base + 2)
local identity = call('HMGET', rows, 'id', 'era')
if identity[1] ~= id then return redis.error_reply('-ROUSELOST') end
local era = identity[2] or '0'

-- Numbers in Lua are doubles: integers are exact up to this one.
local exact = 9007199254740992

-- clock returns the server's time in milliseconds and in microseconds.
local function clock()
  local t = call('TIME')
  return t[1] * 1000 + floor(t[2] / 1000), t[1] * 1000000 + t[2]
end

-- loosen allows the rest of the script to write when maxmemory is reached: Redis decides by the first write
-- of a script, and this one, which has no effect, is never refused. Only for scripts that add no rows.
local function loosen()
  call('HDEL', rows, '')
end

local ahead, fresh = 0, 1

local function give(revision)
  call('SET', base .. 'revisions', string.format('%.0f %.0f %.0f', revision, ahead, fresh))
end

-- counter returns the last revision, the time in microseconds that the next revision continues from if that
-- is later, and the clock in milliseconds. After a takeover from a store with greater revisions, revisions
-- stay ahead of the clock. fresh is the first revision whose near rows are not in the indexes (index.lua).
--
-- If the caller knows a later revision, the shard has come back without its last writes: after a failover, or
-- from a copy. Then revisions continue from that one, as the clock can be behind, too, and the shard begins
-- an era: claims return it, and all callers read again what they have read before. (loosen lets this one
-- script add rows to a full server.)
local function counter()
  local last, text = 0, call('GET', base .. 'revisions')
  if text then
    last, ahead, fresh = string.match(text, '(%d+) (%d+) (%d+)')
    last, ahead, fresh = tonumber(last), tonumber(ahead), tonumber(fresh)
  end
  if last < tonumber(known) then
    last = tonumber(known)
    loosen()
    era = call('HINCRBY', rows, 'era', 1)
    give(last)
  end
  local ms, us = clock()
  return last, us + ahead, ms
end

local spent = 'ROUSE the revisions have reached 2^53, which is as far as Redis counts exactly; move the timers to another store'

-- bulk calls a command with a list of arguments, in parts that fit Lua's stack; a list may also be packed in
-- a text (MessagePack, at most a chunk).
local function bulk(command, key, list)
  if type(list) == 'string' then return call(command, key, unpacked(list)) end
  for i = 1, #list, 4000 do
    call(command, key, unpack(list, i, min(i + 3999, #list)))
  end
end

local function namespace(member)
  return sub(member, 1, find(member, '\0', 1, true) - 1)
end

-- token returns a lower bound of all later revisions, and the era. With several shards the smallest token counts, and a
-- shard that is rarely written would keep it in the past, so its revision advances to the clock first.
local function token(last, us, several)
  if several and us > last then
    loosen()
    if fresh > last then fresh = us + 1 end
    give(us)
    last = us
  end
  return string.format('%.0f:%s', last + 1, era)
end

-- before compares bytes: Lua's own < uses the server's locale.
local function before(a, b)
  for i = 1, min(#a, #b) do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local function add(lists, key, a, b)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  local k = #list
  list[k + 1] = a
  if b then list[k + 2] = b end
end
