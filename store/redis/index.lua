-- The journal records written rows for claims that want what was written since another claim. It consists of
-- two lists. Each head has the last revision before the write plus one, the clock in microseconds, and the
-- stamp of the writer; then, if there are near rows, their earliest and latest visible times. Each entry has
-- the number of near rows and of all rows, bucket:4 visible:8 of each row, and their keys, packed, possibly
-- including rows that were not written after all. Entries older than ten seconds are deleted; a claim that
-- finds no head older than its token reads the whole window.
--
-- Near rows are new rows that are due soon. Most of them are removed soon, too, so they are not added to the
-- indexes (due and keys) when they are written, but when their entry is deleted, or when a script needs the
-- indexes. The first bit of their state marks them.

-- indexed reports whether a row is in the indexes.
local function indexed(row)
  return byte(row, 37) < 128 or parse('>L', row) < fresh
end

-- index adds the near rows of an entry to the indexes. after is the first revision after those of the entry.
local function index(entry, after)
  local near, all = parse('>I4I4', entry)
  if near > 0 then
    local members, enter, due = {cmsgpack.unpack_limit(entry, near, 8 + 12 * all)}, {}, {}
    local have = call('HMGET', rows, unpack(members, 2))
    for i = 1, near do
      local row = have[i]
      if row and byte(row, 37) >= 128 and parse('>L', row) < after then
        local bucket, visible = parse('>I4l', row, 17)
        add(due, bucket, string.format('%.0f', visible), members[i + 1])
        enter[#enter + 1] = '0'
        enter[#enter + 1] = members[i + 1]
      end
    end
    bulk('ZADD', base .. 'keys', enter)
    for bucket, list in pairs(due) do bulk('ZADD', base .. 'due:' .. bucket, list) end
  end
  fresh = after
  return near
end

-- journal adds an entry, and deletes old ones. If the clock was set back, those from before are in the future,
-- and are deleted, too: they would stay until the clock has caught up.
local function journal(last, us, stamp, noted)
  local n = call('RPUSH', heads, pack('>LL', last + 1, us) .. stamp)
  call('RPUSH', entries, noted)
  local head = call('LINDEX', heads, 0)
  for _ = 1, min(3, n - 1) do
    local first, at = parse('>LL', head)
    if math.abs(us - at) < 10000000 then return end
    call('LPOP', heads)
    local entry = call('LPOP', entries)
    head = call('LINDEX', heads, 0)
    if first >= fresh then index(entry, (parse('>L', head))) end
  end
end

-- pending returns how many of the newest entries are not in the indexes, and whether near rows of them may be
-- visible from one time to another.
local function pending(from, till)
  local any = false
  for i = 1, math.huge do
    local head = call('LINDEX', heads, -i)
    if not head or parse('>L', head) < fresh then return i - 1, any end
    if #head > 32 then
      local earliest, latest = parse('>ll', head, 33)
      any = any or earliest <= till and latest >= from
    end
  end
end

-- settled adds near rows to the indexes if some may be visible from one time to another. It adds those of a
-- limited number of entries, and returns false if the script has to be called again, with the target that it
-- returns then: without a fixed target, writers could be faster.
local function settled(last, from, till, target)
  local n, any = pending(from, till)
  if not any and target == '' then return true end
  target = target == '' and last or tonumber(target)
  loosen()
  local budget = 1000
  while n > 0 and budget > 0 and fresh <= target do
    local behind = n > 1 and parse('>L', call('LINDEX', heads, 1 - n)) or last + 1
    budget = budget - 20 - index(call('LINDEX', entries, -n), behind)
    n = n - 1
  end
  if n == 0 then fresh = last + 1 end
  give(last)
  return fresh > target, string.format('%.0f', target)
end
