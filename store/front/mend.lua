-- Says where rows are as somebody has looked at them: key, score, value, and the value that the index had before he looked (empty: none) of
-- each. Where it has that one still, it is mended in any case, as the row was gone or its revision went back; otherwise if it is older.
-- The answer is the number of entries that were added or put right.
local mended = 0
for at = 2, #ARGV, 4 do
  local member, score, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local was = call('HGET', rows, member)
  if (was or '') == ARGV[at + 3] then
    local before = was and call('ZSCORE', due(was), member)
    if was and older(value, was) then
      call('ZREM', due(was), member)
      call('HDEL', rows, member)
      was = false
    end
    if put(member, score, value, was) and (before or '') ~= score then mended = mended + 1 end
  elseif was and score ~= '' and put(member, score, value, was) then
    mended = mended + 1
  end
end
settle()
return mended
