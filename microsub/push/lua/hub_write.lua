-- Writes a subscription and the request for it, where both are as they were read.
--
-- Atomic: the comparison and the writes, so that a request that came meanwhile is never lost, and nothing comes back that
-- has ended.
--
-- KEYS  1 subscriptions of an owner
-- ARGV  1 seconds for which the key stays  2.. per field: name, value as it was read, value from now on ('' for none)
-- reply 1 where it was written, else 0
for i = 2, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
end
for i = 2, #ARGV, 3 do
  if ARGV[i + 2] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1
