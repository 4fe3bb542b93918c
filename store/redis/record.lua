-- Reads records, newest first. ARGV: namespace, name (empty: all), where they begin (an id that is newer than they are; empty: the newest),
-- its hour, and the greatest number. The answer is a name and an id with a body for each.
local space, name, limit = ARGV[1], ARGV[2], tonumber(ARGV[5])
local from = ARGV[3] == '' and '+' or '(' .. ARGV[3]
local out = {}
if name ~= '' then
  for _, entry in ipairs(call('ZREVRANGEBYLEX', base .. 'history:' .. space .. '\0' .. name, from, '-', 'LIMIT', 0, limit)) do
    out[#out + 1] = name
    out[#out + 1] = entry
  end
  return out
end
local hours, bound = {}, tonumber(ARGV[4])
for _, hour in ipairs(call('HKEYS', base .. 'hours')) do
  hour = tonumber(hour)
  if ARGV[3] == '' or hour <= bound then hours[#hours + 1] = hour end
end
table.sort(hours, function(a, b) return a > b end)
for _, hour in ipairs(hours) do
  local key = base .. 'records:' .. string.format('%.0f', hour) .. ':' .. space
  for _, entry in ipairs(call('ZREVRANGEBYLEX', key, from, '-', 'LIMIT', 0, limit - #out / 2)) do
    local id, of = sub(entry, 1, 16), sub(entry, 17)
    local behind = sub(id, 1, 8) .. pack('>L', parse('>L', id, 9) + 1)
    out[#out + 1] = of
    out[#out + 1] = call('ZRANGEBYLEX', base .. 'history:' .. space .. '\0' .. of, '[' .. id, '(' .. behind)[1]
  end
  if #out / 2 >= limit then break end
end
return out
