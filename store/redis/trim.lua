-- Forgets records, up to a number of them. ARGV: the number, and either an hour, or nothing, a namespace, a name, how many to keep at least
-- and an id that all are older than (empty: any). The answer is how many were forgotten, and 1 if some remain to be.
local most, hour, space, name = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

local function behind(id) return sub(id, 1, 8) .. pack('>L', parse('>L', id, 9) + 1) end

local function forget(h, by)
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
    if not of then
      call('HDEL', base .. 'hours', hour)
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
      forget(hour, #entries)
    end
    if #entries == 0 or call('EXISTS', key) == 0 then call('SREM', base .. 'spaces:' .. hour, of) end
  end
  return {gone, call('HEXISTS', base .. 'hours', hour)}
end

local key = base .. 'history:' .. space .. '\0' .. name
local surplus
if ARGV[6] == '' then
  surplus = call('ZCARD', key) - tonumber(ARGV[5])
else
  surplus = call('ZLEXCOUNT', key, '-', '(' .. ARGV[6])
end
local n = min(surplus, most)
if n <= 0 then return {0, 0} end
for _, entry in ipairs(call('ZRANGE', key, 0, n - 1)) do
  local high, low = parse('>I4I4', entry)
  local h = ((high - 2147483648) * 4294967296 + low) / 3600000
  h = string.format('%.0f', h < 0 and math.ceil(h) or floor(h))
  if h == '-0' then h = '0' end
  call('ZREM', base .. 'records:' .. h .. ':' .. space, sub(entry, 1, 16) .. name)
  forget(h, 1)
end
call('ZREMRANGEBYRANK', key, 0, n - 1)
return {n, surplus > n and 1 or 0}
