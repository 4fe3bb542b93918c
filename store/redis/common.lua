-- Prefix of all scripts. KEYS[1] is the base that all keys of the shard begin with; no key has that name
-- itself (script.go).
local base = KEYS[1]
local rows = base .. 'rows'
local ARGV = ARGV
local call, sub, byte, find, floor, min = redis.call, string.sub, string.byte, string.find, math.floor, math.min
local pack, parse = struct.pack, struct.unpack
local zero = '\0\0\0\0\0\0\0\0'

-- Numbers in Lua are doubles: integers are exact up to this one.
local exact = 9007199254740992

-- clock returns the server's time in milliseconds and in microseconds.
local function clock()
  local t = call('TIME')
  return t[1] * 1000 + floor(t[2] / 1000), t[1] * 1000000 + t[2]
end

-- counter returns the last revision, the time in microseconds that the next revision continues from if that
-- is later, and the clock in milliseconds. After a takeover from a store with greater revisions, revisions
-- stay ahead of the clock.
local ahead = 0
local function counter()
  local last = call('GET', base .. 'revision') or '0'
  local space = find(last, ' ', 1, true)
  if space then
    ahead = tonumber(sub(last, space + 1))
    last = sub(last, 1, space - 1)
  end
  local ms, us = clock()
  return tonumber(last), us + ahead, ms
end

local function give(revision)
  call('SET', base .. 'revision', string.format(ahead > 0 and '%.0f %.0f' or '%.0f', revision, ahead))
end

local spent = 'ROUSE the revisions have reached 2^53, which is as far as Redis counts exactly; move the timers to another store'

-- bulk calls a command with a list of arguments, in parts that fit Lua's stack.
local function bulk(command, key, list)
  for i = 1, #list, 4000 do
    call(command, key, unpack(list, i, min(i + 3999, #list)))
  end
end

-- loosen allows the rest of the script to write when maxmemory is reached: Redis decides by the first write
-- of a script, and this one, which has no effect, is never refused. Only for scripts that add no rows.
local function loosen()
  call('HDEL', rows, '')
end

local function namespace(member)
  return sub(member, 1, find(member, '\0', 1, true) - 1)
end

-- token returns a lower bound of all later revisions. With several shards the smallest token counts, and a
-- shard that is rarely written would keep it in the past, so its revision advances to the clock first.
local function token(last, us, several)
  if several and us > last then
    loosen()
    give(us)
    last = us
  end
  return string.format('%.0f', last + 1)
end

-- journal records written rows for claims that want what was written since another claim. It consists of two
-- lists. Each head has the last revision before the write, the clock in microseconds, and the stamp of the
-- writer. Each list of rows has bucket:4 visible:8 length:2 key of each row, possibly including rows that
-- were not written after all. Entries older than ten seconds are deleted; a claim that finds no head older
-- than its token reads the whole window.
local function journal(last, us, stamp, noted)
  local heads, bodies = base .. 'journal', base .. 'journal:rows'
  local n = call('RPUSH', heads, pack('>LL', last + 1, us) .. stamp)
  call('RPUSH', bodies, noted)
  for _ = 1, min(3, n - 1) do
    if parse('>L', call('LINDEX', heads, 0), 9) > us - 10000000 then return end
    call('LPOP', heads)
    call('LPOP', bodies)
  end
end

-- before compares bytes: Lua's own < uses the server's locale.
local function before(a, b)
  for i = 1, min(#a, #b) do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
