-- Finds the rows of a window that were written since a revision, by the journal. ARGV: now in ms (empty: the server's), ahead in ms, the
-- revision, 1 if there are several shards, and the buckets. The answer is now, the token, 1 if the journal goes back far enough, and key
-- and visible time of each row, as they were when it was noted: they are to be compared with the rows.
local last, us, ms = counter()
local now = ARGV[1] == '' and ms or tonumber(ARGV[1])
local till, since = now + tonumber(ARGV[2]), tonumber(ARGV[3])
local wanted = {}
for i = 5, #ARGV do wanted[tonumber(ARGV[i])] = true end

local out, seen, looks = {now, token(last, us, ARGV[4] == '1'), 1}, {}, 100000
for i = -1, -math.huge, -1 do
  local entry = call('LINDEX', base .. 'journal', i)
  if not entry or looks < 0 then
    out[3] = 0
    return out
  end
  local first, at = parse('>L', entry)
  while at <= #entry do
    local bucket, visible, n
    bucket, visible, n, at = parse('>I4lI2', entry, at)
    looks = looks - 1
    if wanted[bucket] and visible <= till then
      local member = sub(entry, at, at + n - 1)
      if not seen[member] then
        seen[member] = true
        out[#out + 1] = member
        out[#out + 1] = pack('>l', visible)
      end
    end
    at = at + n
  end
  if first <= since then return out end
end
