-- Makes changes. ARGV: the stamp of the call; the written rows in the format of the journal; then, 4 bytes
-- each, the number of creates and their runs, of replacements and their runs, of ends and their runs, of
-- removals and their runs, of the keys and the changes of change.lua, of records of replacements (write.lua),
-- and of numbers. Then these follow. Each key is in one of them only, so that rows can be read, checked and
-- written many at a time. A run is a sequence of rows with the same properties; the properties follow behind
-- all rows:
--
--   a create        score key, after all of these its blob without revision and generation; of a run count:4 bucket:4 state:1 namespace;
--                   and all numbers, 2 bytes each
--   a replacement   the same, but the blob has the generation; and all expected revisions, 8 bytes each
--   an end          key time of a removal with the only record of it; all revisions; of a run count, hour, namespace, slot and records (ended.lua)
--   a removal       key; all revisions; of a run count and namespace
--
-- The number of a change is the distance of its revision, or of the sequence of its record, from the last
-- revision given before. The answer is that last revision, 17 bytes for each change of change.lua, and 12
-- bytes for each refused change of the others: its index and the row's revision. The script computes
-- everything before it writes: it writes each key once, and a call that is refused because memory is full has
-- changed nothing.
local creates, createRuns, replaces, replaceRuns, ends, endRuns, removes, removeRuns, n, changes, records, numbers =
  parse('>I4I4I4I4I4I4I4I4I4I4I4I4', ARGV[3])

-- Revisions continue from the last one or from the clock, whichever is later: a server that took over from a
-- dead one without its last writes does not repeat their revisions.
local last, us = counter()
local first = math.max(last, us)
local at = 4

local sets, dels, enter, grows = {}, {}, {}, false
local due, past = {}, {} -- rows to add to buckets, and to remove from them
local into, from = {}, {} -- the lists of rows by state; there is none of scheduled rows
local tally = {} -- namespace → state → change of the number of rows
local failed, refused, ended = {}, {}, {}

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

local function count(space, state, by)
  local states = tally[space]
  if not states then
    states = {}
    tally[space] = states
  end
  states[state] = (states[state] or 0) + by
end

local function leave(space, was, member)
  count(space, was, -1)
  if was ~= 1 then add(from, was, member) end
end

local function come(space, now, member)
  count(space, now, 1)
  if now ~= 1 then add(into, now, '0', member) end
end

local function refuse(place, row)
  refused[place] = true
  failed[#failed + 1] = pack('>I4', place) .. (row and sub(row, 1, 8) or zero)
end

-- put reads creates or replacements.
local function put(n, runs, replaces, places)
  local at0, blobs, after = at, at + 2 * n - 1, at + 3 * n + runs
  local numbers = ARGV[after]
  at = after + (replaces and 2 or 1)
  if n == 0 then return end
  local members = {}
  for i = 1, n do members[i] = ARGV[at0 + 2 * i - 1] end
  local have, given = call('HMGET', rows, unpack(members)), replaces and ARGV[after + 1]
  local i, k, e = 0, #sets, #enter
  for run = after - runs, after - 1 do
    local header = ARGV[run]
    local size, bucket, state = parse('>I4I4B', header)
    local space, code, bad = sub(header, 10), sub(header, 5, 8), nil
    for j = i + 1, i + size do
      local row, member = have[j], members[j]
      local high, low = byte(numbers, 2 * j - 1, 2 * j)
      local r = pack('>L', first + high * 256 + low)
      if replaces and row and sub(row, 1, 8) == sub(given, 8 * j - 7, 8 * j) then
        sets[k + 1], sets[k + 2] = member, r .. ARGV[blobs + j]
        k = k + 2
        if sub(row, 17, 20) ~= code then add(past, sub(row, 17, 20), member) end
        local was = byte(row, 37)
        if was ~= state then
          leave(space, was, member)
          come(space, state, member)
        end
      elseif not replaces and not row then
        sets[k + 1], sets[k + 2] = member, r .. r .. ARGV[blobs + j]
        k = k + 2
        enter[e + 1], enter[e + 2] = '0', member
        e = e + 2
        if state ~= 1 then add(into, state, '0', member) end
      else
        refuse(places + j, row)
        bad = bad or {}
        bad[j] = true
      end
    end
    local good = size
    if not bad then
      due[#due + 1] = {bucket, ARGV, at0 + 2 * i, at0 + 2 * (i + size) - 1}
    else
      local list = {}
      for j = i + 1, i + size do
        if not bad[j] then
          list[#list + 1] = ARGV[at0 + 2 * j - 2]
          list[#list + 1] = members[j]
        end
      end
      good = #list / 2
      if good > 0 then due[#due + 1] = {bucket, list, 1, #list} end
    end
    if not replaces and good > 0 then
      grows = true
      count(space, state, good)
    end
    i = i + size
  end
end

-- remove reads ends or removals.
local function remove(n, runs, ends, places)
  local at0, step, args = at, ends and 2 or 1, ends and 5 or 2
  local given = ARGV[at0 + step * n]
  local run = at0 + step * n + 1
  at = run + runs * args
  if n == 0 then return end
  local members = {}
  for i = 1, n do members[i] = ARGV[at0 + step * (i - 1)] end
  local have, i, d, buckets = call('HMGET', rows, unpack(members)), 0, #dels, past
  for run = run, at - 1, args do
    local size, space, gone, bad = tonumber(ARGV[run]), ARGV[run + (ends and 2 or 1)], 0, nil
    for j = i + 1, i + size do
      local row, member = have[j], members[j]
      if row and sub(row, 1, 8) == sub(given, 8 * j - 7, 8 * j) then
        d = d + 1
        dels[d] = member
        local bucket = sub(row, 17, 20)
        local list = buckets[bucket]
        if list then list[#list + 1] = member else buckets[bucket] = {member} end
        local was = byte(row, 37)
        if was == 1 then gone = gone + 1 else leave(space, was, member) end
      else
        refuse(places + j, row)
        bad = bad or {}
        bad[j] = true
      end
    end
    if gone > 0 then count(space, 1, -gone) end
    if ends then
      ended[#ended + 1] = {ARGV[run + 1], space, ARGV[run + 3], ARGV[run + 4], size, i, at0 + 2 * i, bad}
    end
    i = i + size
  end
end

put(creates, createRuns, false, 0)
put(replaces, replaceRuns, true, creates)
remove(ends, endRuns, true, creates + replaces)
remove(removes, removeRuns, false, creates + replaces + ends)
