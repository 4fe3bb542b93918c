-- Returns score and value of keys; empty if there is no entry.
local out = {}
for at = 2, #ARGV do
  local value = call('HGET', rows, ARGV[at])
  out[#out + 1] = value and call('ZSCORE', due(value), ARGV[at]) or ''
  out[#out + 1] = value or ''
end
return out
