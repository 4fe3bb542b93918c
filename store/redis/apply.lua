-- Makes changes. ARGV: the stamp of the call, for the head in the journal (index.lua); the written rows, for
-- its entry; then, 4 bytes each, the number of near creates and their runs, of other creates and their runs,
-- of replacements and their runs, of ends and their runs, of removals and their runs, of the keys and the
-- changes of change.lua, of records of replacements and of marks (write.lua), and of numbers. Then these
-- follow. Each key is in one of them only, so that rows can be read, checked and written many at a time.
-- Lists of short values are packed in one text each (MessagePack), as each argument has a cost of its own. Blobs
-- are arguments, as Lua hashes every byte of every text. A run is a sequence of rows with the same properties:
--
--   creates         keys; numbers; of each run count:4 bucket:4 state:1 namespace; blobs, without revision and generation. After the
--                   numbers, those that are not near have '0' and key of each, sorted; after the runs, score and key of each, run by run
--   replacements    keys; numbers; expected revisions; runs; score and key of each, run by run; blobs, without revision
--   ends            keys; expected revisions; of each run count:4 namespace, hour, slot, and the records (ended.lua)
--   removals        keys; expected revisions; of each run count:4 namespace
--
-- The number of a change, 2 bytes, is the distance of its revision, or of the sequence of its record, from the last
-- revision given before. The answer is that last revision, the last one that was given (0: none), 17 bytes for each change of change.lua, and 12
-- bytes for each refused change of the others: its index and the row's revision. The script computes
-- everything before it writes: it writes each key once, and a call that is refused because memory is full has
-- changed nothing.
local nears, nearRuns, creates, createRuns, replaces, replaceRuns, ends, endRuns, removes, removeRuns, n, changes, records, marks, numbers =
  parse('>I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4', ARGV[3])

-- Revisions continue from the last one or from the clock, whichever is later: a server that took over from a
-- dead one without its last writes does not repeat their revisions.
local last, us = counter()
local first = math.max(last, us)
local at = 4

local sets, dels, enters, exits, grows, put = {}, {}, {}, {}, false, false -- lists of arguments, some of them packed
local due, past = {}, {} -- rows to add to buckets, and to remove from them
local into, from = {}, {} -- the lists of rows by state; there is none of scheduled rows
local tally = {} -- namespace → state → change of the number of rows
local failed, refused, ended = {}, {}, {}

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

-- without returns a run's list of pairs without those of refused rows; the run begins after a place.
local function without(pairs, bad, after)
  local out, k = {}, 0
  for j = 1, #pairs / 2 do
    if not bad[after + j] then
      out[k + 1], out[k + 2] = pairs[2 * j - 1], pairs[2 * j]
      k = k + 2
    end
  end
  return out
end

-- create reads creates.
local function create(n, runs, near, places)
  if n == 0 then return end
  local members, numbers, header = {unpacked(ARGV[at])}, ARGV[at + 1], at + (near and 2 or 3)
  local have, fields, k, bad, blobs = call('HMGET', rows, unpack(members)), {}, 0, nil, header + (near and 1 or 2) * runs - 1
  for j = 1, n do
    if have[j] then
      refuse(places + j, have[j])
      bad = bad or {}
      bad[j] = true
    else
      local high, low = byte(numbers, 2 * j - 1, 2 * j)
      local r = pack('>L', first + high * 256 + low)
      fields[k + 1], fields[k + 2] = members[j], r .. r .. ARGV[blobs + j]
      k = k + 2
    end
  end
  local i, enter = 0, {}
  for run = header, header + runs - 1 do
    local size, bucket, state = parse('>I4I4B', ARGV[run])
    local good, scores = size, not near and ARGV[run + runs]
    for j = i + 1, i + size do
      if bad and bad[j] then
        good = good - 1
      elseif state ~= 1 then
        add(into, state, '0', members[j])
      end
    end
    if bad and not near then scores = without({unpacked(scores)}, bad, i) end
    if good > 0 then
      count(sub(ARGV[run], 10), state, good)
      if not near then due[#due + 1] = {bucket, scores} end
      grows, put = true, true
    end
    i = i + size
  end
  if not near and not bad then
    enters[#enters + 1] = ARGV[at + 2]
  elseif not near then
    for j = 1, n do
      if not bad[j] then
        enter[#enter + 1] = '0'
        enter[#enter + 1] = members[j]
      end
    end
    enters[#enters + 1] = enter
  end
  sets[#sets + 1] = fields
  at = blobs + 1 + n
end

-- replace reads replacements.
local function replace(n, runs, places)
  if n == 0 then return end
  local members, numbers, given, header = {unpacked(ARGV[at])}, ARGV[at + 1], {unpacked(ARGV[at + 2])}, at + 3
  local have, fields, k, i, bad, enter, blobs = call('HMGET', rows, unpack(members)), {}, 0, 0, nil, {}, header + 2 * runs - 1
  for run = header, header + runs - 1 do
    local size, bucket, state = parse('>I4I4B', ARGV[run])
    local space, code, scores = sub(ARGV[run], 10), sub(ARGV[run], 5, 8), ARGV[run + runs]
    for j = i + 1, i + size do
      local row, member = have[j], members[j]
      if row and parse('>L', row) == given[j] then
        local high, low = byte(numbers, 2 * j - 1, 2 * j)
        fields[k + 1], fields[k + 2] = member, pack('>L', first + high * 256 + low) .. ARGV[blobs + j]
        k = k + 2
        put = true
        if not indexed(row) then
          enter[#enter + 1] = '0'
          enter[#enter + 1] = member
        elseif sub(row, 17, 20) ~= code then
          add(past, sub(row, 17, 20), member)
        end
        local was = byte(row, 37) % 128
        if was ~= state then
          leave(space, was, member)
          come(space, state, member)
        end
      else
        refuse(places + j, row)
        bad = bad or {}
        bad[j] = true
      end
    end
    due[#due + 1] = {bucket, bad and without({unpacked(scores)}, bad, i) or scores}
    i = i + size
  end
  sets[#sets + 1] = fields
  enters[#enters + 1] = enter
  at = blobs + 1 + n
end

-- remove reads ends or removals.
local function remove(n, runs, ends, places)
  if n == 0 then return end
  local members, given = {unpacked(ARGV[at])}, {unpacked(ARGV[at + 1])}
  local have, i, exit, bad, step = call('HMGET', rows, unpack(members)), 0, {}, nil, ends and 4 or 1
  for run = at + 2, at + 1 + step * runs, step do
    local size, space, gone = parse('>I4', ARGV[run]), sub(ARGV[run], 5), 0
    for j = i + 1, i + size do
      local row = have[j]
      local revision = row and parse('>L', row)
      if row and revision == given[j] then
        local was = byte(row, 37)
        if was < 128 or revision < fresh then
          exit[#exit + 1] = members[j]
          add(past, sub(row, 17, 20), members[j])
        end
        if was % 128 == 1 then gone = gone + 1 else leave(space, was, members[j]) end
      else
        refuse(places + j, row)
        bad = bad or {}
        bad[j] = true
      end
    end
    if gone > 0 then count(space, 1, -gone) end
    if ends then ended[#ended + 1] = {ARGV[run + 1], space, ARGV[run + 2], ARGV[run + 3], size, i, bad} end
    i = i + size
  end
  exits[#exits + 1] = exit
  if bad then
    local rest = {}
    for j = 1, n do
      if not bad[j] then rest[#rest + 1] = members[j] end
    end
    dels[#dels + 1] = rest
  else
    dels[#dels + 1] = members
  end
  at = at + 2 + step * runs
end

create(nears, nearRuns, true, 0)
create(creates, createRuns, false, nears)
local placed = nears + creates
replace(replaces, replaceRuns, placed)
placed = placed + replaces
remove(ends, endRuns, true, placed)
remove(removes, removeRuns, false, placed + ends)
