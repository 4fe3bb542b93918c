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
  local _, all = parse('>I4I4', entry)
  local members, offset, k = {}, 8 + 12 * all, 0
  repeat -- in parts that fit Lua's stack
    local part = {cmsgpack.unpack_limit(entry, min(4000, all - k), offset)}
    offset = part[1]
    for i = 2, #part do
      k = k + 1
      members[k] = part[i]
    end
  until k >= all
  looks = looks - all
  for i = 1, all do
    local bucket, visible = parse('>I4l', entry, 12 * i - 3)
    if wanted[bucket] and visible <= till then
      local when = sub(entry, 12 * i + 1, 12 * i + 8)
      local place = when .. members[i]
      if not seen[place] then
        seen[place] = true
        out[#out + 1] = members[i]
        out[#out + 1] = when
      end
    end
  end
end

for i = -1, -math.huge, -1 do
  local head = call('LINDEX', heads, i)
  if not head or looks < 0 then
    out[3] = 0
    return out
  end
  if sub(head, 17, 24) ~= own or parse('>L', head, 25) > newest or open[sub(head, 25, 32)] then
    gather(call('LINDEX', entries, i))
  end
  if parse('>L', head) <= since then return out end
end
