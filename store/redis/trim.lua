-- Deletes records, at most a given number of those stored alone. ARGV: the number, and either an hour, or
-- nothing, a namespace, a name, the minimum to keep and an id that all deleted ones are older than (empty:
-- any). The answer is the number of deleted records, and 1 if some remain.
local most, hour, space, name = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local function behind(id) return sub(id, 1, 8) .. pack('>L', parse('>L', id, 9) + 1) end

-- uncount subtracts deleted records from the count of their hour.
local function uncount(h, by)
  if call('HINCRBY', base .. 'hours', h, -by) <= 0 then
    call('HDEL', base .. 'hours', h)
    call('DEL', base .. 'spaces:' .. h)
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
      call('UNLINK', base .. 'batches:' .. hour .. ':' .. of)
      call('SREM', base .. 'spaces:' .. hour, of)
    end
  end
  return {gone, 1}
end

-- The timer's records in batches, oldest first: at most one in each hour.
local key, singles = base .. 'history:' .. space .. '\0' .. name, {}
for _, h in ipairs(call('HKEYS', base .. 'hours')) do
  local id, _, text = single(h, space, name)
  if id and (ARGV[6] == '' or before(id, ARGV[6])) then singles[#singles + 1] = {id, text, h} end
end
table.sort(singles, function(a, b) return before(a[1], b[1]) end)

local surplus = #singles
if ARGV[6] == '' then
  surplus = surplus + call('ZCARD', key) - tonumber(ARGV[5])
else
  surplus = surplus + call('ZLEXCOUNT', key, '-', '(' .. ARGV[6])
end
local n = min(surplus, most)
if n <= 0 then return {0, 0} end

-- deleteSingle removes a record from its batch.
local function deleteSingle(id, text, h)
  local batches, kept, size = base .. 'batches:' .. h .. ':' .. space, {}, 0
  call('ZREM', batches, text)
  each(text, batchHead + 1, function(_, time, of, _, whole)
    if of ~= name or time ~= sub(id, 1, 8) then
      size = size + 1
      kept[size] = whole
    end
  end)
  if size > 0 then call('ZADD', batches, '0', sub(text, 1, 16) .. pack('>I2', size) .. table.concat(kept)) end
  call('HDEL', base .. 'ended:' .. h, space .. '\0' .. name .. '\0')
  uncount(h, 1)
end

local alone, next = 0, 1
local entries = call('ZRANGE', key, 0, n - 1)
for _ = 1, n do
  local entry, one = entries[alone + 1], singles[next]
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
