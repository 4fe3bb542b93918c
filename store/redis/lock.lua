-- Takes, renews or ends leases. ARGV: owner, the duration in ms (-1: end them), and of each lease its name
-- and, to take it, the expected epoch (8 bytes, 0 is any) and its data. The answer is the clock and the new
-- state of each lease. A lease is epoch:8 end:8 length:4 owner data.
local key, owner, ttl = base .. 'leases', ARGV[1], tonumber(ARGV[2])
local now = clock()
local out, i = {now}, 3
loosen()
while i <= #ARGV do
  local name = ARGV[i]
  local lease = call('HGET', key, name)
  local epoch, ends, has, data = 0, 0, '', ''
  if lease then
    local at
    epoch, ends, has, at = parse('>Ll>I4c0', lease)
    data = sub(lease, at)
  end
  if ttl < 0 then
    if lease and has == owner and ends > now then
      call('HSET', key, name, pack('>Ll>I4', epoch, now, #has) .. has .. data)
    end
    i = i + 1
  else
    local cond = ARGV[i + 1]
    local taken
    if cond ~= zero then
      taken = lease and sub(lease, 1, 8) == cond
      if taken then epoch = epoch + 1 end
    else
      taken = ends <= now or has == owner
      if ends <= now or has ~= owner then
        if taken then epoch = epoch + 1 end
      end
    end
    if taken then
      lease = pack('>Ll>I4', epoch, min(now + ttl, exact - 1), #owner) .. owner .. ARGV[i + 2]
      call('HSET', key, name, lease)
    end
    out[#out + 1] = lease or ''
    i = i + 3
  end
end
return out
