-- Deletes records, at most a given number of those stored alone. ARGV: the number, and either an hour, or
-- nothing, a namespace, a name, the minimum to keep, an id that all deleted ones are older than (empty: any),
-- and part and tag of the name (ended.lua). The answer is the number of deleted records, and 1 if some remain.
local most, hour, space, name = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local function behind(id) return sub(id, 1, 8) .. pack('>L', parse('>L', id, 9) + 1) end

-- unlink deletes the batches of an hour, and the marks of their names.
local function unlink(h, of)
  local keys = {base .. 'batches:' .. h .. ':' .. of}
  for part = 0, 31 do keys[part + 2] = base .. 'marks:' .. h .. ':' .. of .. ':' .. part end
  call('UNLINK', unpack(keys))
  call('SREM', base .. 'spaces:' .. h, of)
end

-- uncount subtracts deleted records from the count of their hour.
local function uncount(h, by)
  if call('HINCRBY', base .. 'hours', h, -by) <= 0 then
    call('HDEL', base .. 'hours', h)
    for _, of in ipairs(call('SMEMBERS', base .. 'spaces:' .. h)) do unlink(h, of) end
  end
end

loosen()
if hour ~= '' then
  local gone = 0
  while gone < most do
    local of = call('SRANDMEMBER', base .. 'spaces:' .. hour)
    if not of then -- the rest of the number was in batches
      gone = gone + (call('HGET', base .. 'hours', hour) or 0)
      call('HDEL', base .. 'hours', hour)
      call('UNLINK', base .. 'ended:' .. hour)
      return {gone, 0}
    end
    local key = base .. 'records:' .. hour .. ':' .. of
    local entries = call('ZRANGE', key, 0, most - gone - 1)
    for _, entry in ipairs(entries) do
      local id = sub(entry, 1, 16)
      call('ZREMRANGEBYLEX', base .. 'history:' .. of .. '\0' .. sub(entry, 17), '[' .. id, '(' .. behind(id))
    end
    if #entries > 0 then
      call('ZREMRANGEBYRANK', key, 0, #entries - 1)
      gone = gone + #entries
      call('HINCRBY', base .. 'hours', hour, -#entries)
    end
    if #entries == 0 or call('EXISTS', key) == 0 then
      unlink(hour, of)
    end
  end
  return {gone, 1}
end

-- The timer's records in batches, oldest first.
local key, found = base .. 'history:' .. space .. '\0' .. name, {}
for _, h in ipairs(call('HKEYS', base .. 'hours')) do
  for _, time in ipairs(times(h, space, name, ARGV[7])) do
    singles(h, space, name, time, function(id)
      if ARGV[6] == '' or before(id, ARGV[6]) then found[#found + 1] = {id, h} end
    end)
  end
end
table.sort(found, function(a, b) return before(a[1], b[1]) end)

local surplus = #found
if ARGV[6] == '' then
  surplus = surplus + call('ZCARD', key) - tonumber(ARGV[5])
else
  surplus = surplus + call('ZLEXCOUNT', key, '-', '(' .. ARGV[6])
end
local n = min(surplus, most)
if n <= 0 then return {0, 0} end

-- deleteSingle removes a record from its batch.
local function deleteSingle(id, h)
  local batches, kept, size, text = base .. 'batches:' .. h .. ':' .. space, {}, 0, nil
  singles(h, space, name, sub(id, 1, 8), function(is, _, of)
    if is == id then text = of end
  end)
  call('ZREM', batches, text)
  local from = parse('>L', text, 9)
  each(text, batchHead + 1, function(number, time, _, _, whole)
    if time .. pack('>L', from + number) ~= id then
      size = size + 1
      kept[size] = whole
    end
  end)
  if size > 0 then call('ZADD', batches, '0', sub(text, 1, 16) .. pack('>I2', size) .. table.concat(kept)) end
  uncount(h, 1)
end

local alone, next = 0, 1
local entries = call('ZRANGE', key, 0, n - 1)
for _ = 1, n do
  local entry, one = entries[alone + 1], found[next]
  if one and not (entry and before(sub(entry, 1, 16), one[1])) then
    deleteSingle(unpack(one))
    next = next + 1
  else
    local high, low = parse('>I4I4', entry)
    local h = ((high - 2147483648) * 4294967296 + low) / 3600000
    h = string.format('%.0f', h < 0 and math.ceil(h) or floor(h))
    if h == '-0' then h = '0' end
    call('ZREM', base .. 'records:' .. h .. ':' .. space, sub(entry, 1, 16) .. name)
    uncount(h, 1)
    alone = alone + 1
  end
end
if alone > 0 then call('ZREMRANGEBYRANK', key, 0, alone - 1) end
return {n, surplus > n and 1 or 0}
