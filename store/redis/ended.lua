-- Records of timers that were removed in the same change are stored in batches. batches:HOUR:NAMESPACE
-- contains texts: the slot (the first of 64 ms, so that a page reads few slots), a revision (sequence of a
-- record = revision + its number), the number of records, and the records: slot:8 revision:8 count:2
-- (number:2 time:8 length:2 name length:4 body)… ended:HOUR has the time of each timer with a record in a
-- batch of the hour; a second record of the same timer and hour is stored like the records of other timers.
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
  return sub(time, 1, 7) .. string.char(last - last % 64)
end

-- single finds a timer's record in the batches of an hour: its id, its body, and the text of the batch.
local function single(hour, space, name)
  local time = call('HGET', base .. 'ended:' .. hour, space .. '\0' .. name .. '\0')
  if not time then return nil end
  local slot, id, body, of = slotOf(time), nil, nil, nil
  for _, text in ipairs(call('ZRANGEBYLEX', base .. 'batches:' .. hour .. ':' .. space, '[' .. slot, '[' .. slot .. '\255')) do
    if find(text, time .. pack('>I2', #name) .. name, 1, true) then
      each(text, batchHead + 1, function(number, t, m, b)
        if t == time and m == name then
          id, body, of = time .. pack('>L', parse('>L', text, 9) + number), b, text
        end
      end)
    end
    if id then return id, body, of end
  end
end
