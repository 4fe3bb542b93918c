-- Prefix of claims. ARGV: now in ms (empty: the server's), ahead and hold in ms (0: none), the limits of rows
-- and of bytes of their bodies (0: no limit), since as 8 bytes, 1 if there are several shards, the end of a
-- late hold (0: none; it counts if more than half of hold is left until then), the target of the previous
-- call (index.lua), the number of buckets, of each its number, the score and the key that its rows come after (empty score: from the start)
-- and how many of its rows are wanted, the number of namespaces, and the namespaces.
local last, us, ms = counter()
local now = ARGV[1] == '' and ms or tonumber(ARGV[1])
local ahead, hold, limit, bytes = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local since, several = ARGV[6], ARGV[7] == '1'
local held_till = tonumber(ARGV[8])
local till = string.format('%.0f', min(now + ahead, exact))

local buckets, earliest = {}, math.huge
local at = 11
for i = 1, tonumber(ARGV[10]) do
  buckets[i] = {key = base .. 'due:' .. ARGV[at], score = ARGV[at + 1], member = ARGV[at + 2], want = tonumber(ARGV[at + 3])}
  earliest = min(earliest, tonumber(ARGV[at + 1]) or -math.huge)
  at = at + 4
end
local spaces
for i = at + 1, at + tonumber(ARGV[at]) do
  spaces = spaces or {}
  spaces[ARGV[i]] = true
end
local filtered = spaces or since ~= zero

local complete, target = settled(last, earliest, tonumber(till), ARGV[9])
if not complete then return target end
local told = token(last, us, several and hold == 0)
if target and fresh <= last then told = string.format('%.0f:%s', fresh, era) end -- later rows may be missing

-- rank returns the index of the first row after a position.
local function rank(key, score, member)
  if score == '' then return 0 end
  local lo, hi = call('ZCOUNT', key, '-inf', '(' .. score), call('ZCOUNT', key, '-inf', score)
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if before(member, call('ZRANGE', key, mid, mid)[1]) then
      hi = mid
    else
      lo = mid + 1
    end
  end
  return lo
end

-- The limit of rows that one script examines, so that it is short whatever the size of the window.
local looks = 8000
local total, some = 0, 0
for i = 1, #buckets do
  local b = buckets[i]
  b.hi = call('ZCOUNT', b.key, '-inf', till)
  b.lo = b.hi > 0 and rank(b.key, b.score, b.member) or 0
  if b.lo < b.hi then total, some = total + b.hi - b.lo, some + 1 end
end

local room = bytes > 0 and bytes or 4194304
if buckets[1] and hold > 0 and buckets[1].want >= 0 then room = math.huge end -- the rows were chosen by an earlier call

-- scan looks for up to n rows of a bucket that match the filters, until the byte limit is reached, at least
-- one. It adds them to found: key, score (of a hold: false), blob (false if not needed). b.last is the last
-- row that was examined.
local sized = hold > 0 or bytes > 0
local function scan(b, n, found)
  local got = 0
  while b.lo < b.hi and got < n and looks > 0 and (room > 0 or got == 0) do
    local count = min(b.hi - b.lo, 500)
    if not filtered then count = min(count, n - got) end
    local members, scores
    if hold > 0 then
      members = call('ZRANGE', b.key, b.lo, b.lo + count - 1)
    else
      members, scores = {}, {}
      local page = call('ZRANGE', b.key, b.lo, b.lo + count - 1, 'WITHSCORES')
      for i = 1, #page, 2 do
        members[#members + 1] = page[i]
        scores[#scores + 1] = page[i + 1]
      end
    end
    local blobs = (sized or since ~= zero) and call('HMGET', rows, unpack(members))
    for i = 1, #members do
      local member, blob = members[i], blobs and blobs[i]
      b.lo, b.last, looks = b.lo + 1, member, looks - 1
      if (blob or not blobs) and (not spaces or spaces[namespace(member)]) and (since == zero or not before(sub(blob, 1, 8), since)) then
        got = got + 1
        found[#found + 1] = member
        found[#found + 1] = scores and scores[i] or false
        found[#found + 1] = blob
        if sized then room = room - parse('>I4', blob, 38) end
        if got == n or room <= 0 then break end
      end
    end
  end
  return got
end
