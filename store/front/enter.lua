-- Enters the index, and creates it if there is none: KEYS[1] is the prefix of all keys, ARGV[1] the id for a
-- new one (0: create none). If ARGV[2] is the id of the existing index, it cannot be trusted and is discarded
-- first. The answer is the id, the level, and the beat.
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
