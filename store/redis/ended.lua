-- Records of timers that were removed in the same change are stored in batches. batches:HOUR:NAMESPACE
-- contains texts: the slot (the first of 64 ms, so that a page reads few slots), a revision (sequence of a
-- record = revision + its number), the number of records, and the records: slot:8 revision:8 count:2
-- (number:2 time:8 length:2 name length:4 body)… marks:HOUR:NAMESPACE:PART has tag:5 time:3 of each record:
-- part and tag are the hash of the name, the time is in milliseconds within the hour. Format 1 had the hash
-- ended:HOUR instead, from row's key to time.
local batchHead = 18

-- each calls a function with number, time, name, body and the whole text of each record of a batch, beginning
-- at a position.
local function each(text, at, f)
  while at <= #text do
    local number, time, name, body, after = parse('>I2c8I2c0I4c0', text, at)
    f(number, time, name, body, sub(text, at, after - 1))
    at = after
  end
end

-- slotOf returns the first bytes of the batches in the slot of a time.
local function slotOf(time)
  local last = byte(time, 8)
  return sub(time, 1, 7) .. char(last - last % 64)
end

-- times returns when records of an hour may have ended whose names have a hash, oldest first.
local function times(hour, space, name, hash)
  local out, seen, key, from = {}, {}, base .. 'marks:' .. hour .. ':' .. space .. ':' .. byte(hash), 0
  local function found(time)
    if time and not seen[time] then
      seen[time] = true
      out[#out + 1] = time
    end
  end
  found(call('HGET', base .. 'ended:' .. hour, space .. '\0' .. name .. '\0'))
  local tag, start = sub(hash, 2), hour * 3600000
  repeat
    local text = call('GETRANGE', key, from, from + 1048575)
    local at = find(text, tag, 1, true)
    while at do
      if at % 8 == 1 then
        local a, b, c = byte(text, at + 5, at + 7)
        local ms = (a * 256 + b) * 256 + c
        local time = pack('>l', start + (ms < 8388608 and ms or ms - 16777216))
        found(char((byte(time) + 128) % 256) .. sub(time, 2))
      end
      at = find(text, tag, at + 1, true)
    end
    from = from + 1048576
  until #text < 1048576
  table.sort(out, before)
  return out
end

-- singles calls a function with id, body and the text of the batch of each record that a timer has in batches
-- at a time.
local function singles(hour, space, name, time, f)
  local slot = slotOf(time)
  for _, text in ipairs(call('ZRANGEBYLEX', base .. 'batches:' .. hour .. ':' .. space, '[' .. slot, '[' .. slot .. '\255')) do
    if find(text, time .. pack('>I2', #name) .. name, 1, true) then
      each(text, batchHead + 1, function(number, t, m, body)
        if t == time and m == name then f(time .. pack('>L', parse('>L', text, 9) + number), body, text) end
      end)
    end
  end
end
