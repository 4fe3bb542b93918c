-- Sets the positions of rows as the caller has read them: of each row key, score, value, and the value in the
-- index before the caller read the row (empty: none). If the index still has that value, the entry is always
-- corrected, as the row was gone or its revision went back; otherwise only if the entry is older. The answer
-- is the number of entries that were added or corrected.
local repaired = 0
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
    if put(member, score, value, was) and (before or '') ~= score then repaired = repaired + 1 end
  elseif was and score ~= '' and put(member, score, value, was) then
    repaired = repaired + 1
  end
end
settle()
return repaired
