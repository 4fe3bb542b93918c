-- Enters the index, and begins it if there is none: KEYS[1] what all keys begin with, ARGV[1] the id of a new one (0: begin none). Where ARGV[2] is the id of
-- the one that is there, it is thrown away first: what it says is not to be trusted. The answer is the id, the level, and the beat.
local base, call = KEYS[1], redis.call
local id = call('GET', base .. 'sync-id')
if id and id == ARGV[2] then
  for _, bucket in ipairs(call('SMEMBERS', base .. 'buckets')) do call('UNLINK', base .. 'due:' .. bucket) end
  call('UNLINK', base .. 'rows', base .. 'state', base .. 'buckets', base .. 'batches', base .. 'sync-id')
  id = false
end
if not id and ARGV[1] ~= '0' then
  call('SET', base .. 'sync-id', ARGV[1])
  call('HSET', base .. 'state', 'level', 10, 'beat', 0)
  id = ARGV[1]
end
return {id, call('HGET', base .. 'state', 'level') or '10', call('HGET', base .. 'state', 'beat') or '0'}
