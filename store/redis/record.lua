-- Reads records, newest first. ARGV: namespace, name (empty: all), an id that is newer than the records
-- (empty: from the newest), its hour, the limit, and part and tag of the name (ended.lua). The answer is the single records, a name and an id with
-- a body for each, and those in batches: for a timer in the same format; for a namespace as whole batches, so
-- many that they contain the limit of older records.
local space, name, limit, hours = ARGV[1], ARGV[2], tonumber(ARGV[5]), {}
local from = ARGV[3] == '' and '+' or '(' .. ARGV[3]
local alone, together = {}, {}
for _, hour in ipairs(call('HKEYS', base .. 'hours')) do
  hour = tonumber(hour)
  if ARGV[3] == '' or hour <= tonumber(ARGV[4]) then hours[#hours + 1] = hour end
end
table.sort(hours, function(a, b) return a > b end)
for i, hour in ipairs(hours) do hours[i] = string.format('%.0f', hour) end

if name ~= '' then
  for _, entry in ipairs(call('ZREVRANGEBYLEX', base .. 'history:' .. space .. '\0' .. name, from, '-', 'LIMIT', 0, limit)) do
    alone[#alone + 1] = name
    alone[#alone + 1] = entry
  end
  for _, hour in ipairs(hours) do
    local marked = times(hour, space, name, ARGV[6])
    for i = #marked, 1, -1 do
      if limit <= 0 then return {alone, together} end
      if ARGV[3] == '' or not before(sub(ARGV[3], 1, 8), marked[i]) then
        singles(hour, space, name, marked[i], function(id, body)
          if ARGV[3] ~= '' and not before(id, ARGV[3]) then return end
          alone[#alone + 1] = name
          alone[#alone + 1] = id .. body
          limit = limit - 1
        end)
      end
    end
  end
  return {alone, together}
end

-- All records of the slot with the starting id may be newer than that, so they do not count.
local slot = ARGV[3] ~= '' and slotOf(ARGV[3])
for _, hour in ipairs(hours) do
  local entries = call('ZREVRANGEBYLEX', base .. 'records:' .. hour .. ':' .. space, from, '-', 'LIMIT', 0, limit)
  for _, entry in ipairs(entries) do
    local id, of = sub(entry, 1, 16), sub(entry, 17)
    local behind = sub(id, 1, 8) .. pack('>L', parse('>L', id, 9) + 1)
    alone[#alone + 1] = of
    alone[#alone + 1] = call('ZRANGEBYLEX', base .. 'history:' .. space .. '\0' .. of, '[' .. id, '(' .. behind)[1]
  end
  local to, had, found, texts = slot and '[' .. slot .. '\255' or '+', nil, 0, nil
  repeat
    texts = call('ZREVRANGEBYLEX', base .. 'batches:' .. hour .. ':' .. space, to, '-', 'LIMIT', 0, 8)
    for _, text in ipairs(texts) do
      local of = sub(text, 1, 8)
      if found >= limit and of ~= had then
        texts = {}
        break
      end
      had = of
      if of ~= slot then found = found + parse('>I2', text, 17) end
      together[#together + 1] = text
    end
    to = '(' .. (texts[8] or '')
  until #texts < 8
  limit = limit - #entries - found
  if limit <= 0 then break end
end
return {alone, together}
