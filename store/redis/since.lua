-- Finds the rows of a window that were written since a revision, using the journal. ARGV: now in ms (empty:
-- the server's), ahead in ms, the revision, 1 if there are several shards, the writer that asks, the number
-- of its last call, the numbers of its unfinished calls as 8 bytes each, and the buckets. Finished calls of
-- the writer itself are skipped. The answer is now, the token, 1 if the journal goes back far enough, and key
-- and visible time of each row as they were when the journal was written: the caller must compare them with
-- the rows.
local last, us, ms = counter()
local now = ARGV[1] == '' and ms or tonumber(ARGV[1])
local till, since = now + tonumber(ARGV[2]), tonumber(ARGV[3])
local own, newest, open, wanted = ARGV[5], tonumber(ARGV[6]), {}, {}
for i = 1, #ARGV[7], 8 do open[sub(ARGV[7], i, i + 7)] = true end
for i = 8, #ARGV do wanted[tonumber(ARGV[i])] = true end

local out, seen, looks = {now, token(last, us, ARGV[4] == '1'), 1}, {}, 100000
if last < since then return out end -- nothing was written

-- gather adds the rows of an entry. A row may be recorded at several positions: it is at one of them, or was
-- written again later.
local function gather(entry)
  local at = 1
  while at <= #entry do
    local bucket, visible, n, name = parse('>I4lI2', entry, at)
    looks = looks - 1
    if wanted[bucket] and visible <= till then
      local place = sub(entry, at + 4, name + n - 1)
      if not seen[place] then
        seen[place] = true
        out[#out + 1] = sub(place, 11)
        out[#out + 1] = sub(place, 1, 8)
      end
    end
    at = name + n
  end
end

for i = -1, -math.huge, -1 do
  local head = call('LINDEX', base .. 'journal', i)
  if not head or looks < 0 then
    out[3] = 0
    return out
  end
  if sub(head, 17, 24) ~= own or parse('>L', head, 25) > newest or open[sub(head, 25)] then
    gather(call('LINDEX', base .. 'journal:rows', i))
  end
  if parse('>L', head) <= since then return out end
end
