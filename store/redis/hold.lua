-- Holds the first rows of each bucket, as many as requested. If the first bucket requests -1: holds all rows
-- of the window if they are within the limits and none otherwise; with a single bucket, as many as the limits
-- allow. The answer is now, the token, 1 if rows remain, 1 if nothing was held because of the limits, and a
-- list: the first revision, then the key and the previous blob of each row. Revisions of the rows are
-- consecutive.
local all = buckets[1] and buckets[1].want < 0
limit = min(limit, 1000)
if all and #buckets > 1 and total > limit then return {now, told, 1, 1} end

local found, more = {}, 0
for i = 1, #buckets do
  local b = buckets[i]
  if #found / 3 < 1000 then
    scan(b, all and limit or min(b.want, 1000 - #found / 3), found)
  end
  if b.lo < b.hi then more = 1 end
end
if all and (#buckets > 1 and (more == 1 or room <= 0) or #found == 0 and more == 1) then return {now, told, 1, 1} end
if #found == 0 then return {now, told, more, 0} end

local revision = last
if us > revision then revision = us end
local out = {now, told, more, 0, string.format('%.0f', revision + 1)}
if revision + #found / 3 >= exact then return redis.error_reply(spent) end
local ends = min(held_till > now + hold / 2 and held_till or now + hold, exact - 1)
local score, visible = string.format('%.0f', ends), pack('>l', ends)
local sets, moves, noted, members = {}, {}, {}, {}
for i = 1, #found, 3 do
  local member, blob = found[i], found[i + 2]
  revision = revision + 1
  sets[#sets + 1] = member
  local held = pack('>L', revision) .. sub(blob, 9, 20) .. visible .. sub(blob, 29, 36) .. char(byte(blob, 37) % 128) .. sub(blob, 38)
  sets[#sets + 1] = held
  noted[#noted + 1] = sub(held, 17, 28)
  members[#members + 1] = member
  local bucket = sub(blob, 17, 20)
  local list = moves[bucket]
  if not list then
    list = {}
    moves[bucket] = list
  end
  list[#list + 1] = score
  list[#list + 1] = member
  out[#out + 1] = member
  out[#out + 1] = blob
end
loosen() -- a hold adds no rows
bulk('HSET', rows, sets)
for bucket, list in pairs(moves) do bulk('ZADD', base .. 'due:' .. parse('>I4', bucket), list) end
if fresh > last then fresh = revision + 1 end
journal(last, us, zero .. zero, pack('>I4I4', 0, #members) .. table.concat(noted) .. cmsgpack.pack(unpack(members)))
give(revision)
return out
