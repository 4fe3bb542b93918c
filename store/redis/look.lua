-- Finds the rows of a window and changes nothing. The answer is now, the token, and of each bucket: 1 if rows
-- remain, score and key of the last row that was examined, and key and score of the rows, with the length of
-- the body if bytes are limited.

-- The number of rows requested from one bucket: its share, plus some reserve so that it rarely has to be
-- asked again.
local share = limit
if total > limit then
  local mean = limit / some
  share = min(limit, math.ceil(mean + 3 * math.sqrt(mean) + 4))
end

local out = {now, told}
for i = 1, #buckets do
  local b, places = buckets[i], {}
  if filtered or sized then
    local found = {}
    scan(b, min(share, 1000), found)
    for j = 1, #found, 3 do
      places[#places + 1] = found[j]
      places[#places + 1] = found[j + 1]
      if sized then places[#places + 1] = parse('>I4', found[j + 2], 38) end
    end
    if b.last then b.member, b.score = b.last, call('ZSCORE', b.key, b.last) end
  elseif b.lo < b.hi and looks > 0 then -- all rows are wanted, and none has to be inspected
    places = call('ZRANGE', b.key, b.lo, min(b.hi, b.lo + min(share, 1000, looks)) - 1, 'WITHSCORES')
    b.lo, looks, b.member, b.score = b.lo + #places / 2, looks - #places / 2, places[#places - 1], places[#places]
  end
  out[i + 2] = {b.lo < b.hi and 1 or 0, b.score, b.member, places}
end
return out
