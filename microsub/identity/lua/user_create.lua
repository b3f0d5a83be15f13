-- Makes a user with their first channel, notifications.
--
-- Atomic: a user is never seen without that channel, and of two callers one makes the user and the other finds it.
--
-- KEYS  1 user  2 channels  3 channel 'notifications'
-- ARGV  1 me  2 now  3 name of the channel  4 'registered': made by signing in; ''
-- reply 1 when made, 0 when there was one
local made = redis.call('HSETNX', KEYS[1], 'me', ARGV[1])
if made == 1 then
  redis.call('HSET', KEYS[1], 'created', ARGV[2])
  if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], ARGV[4], 1) end
end
if redis.call('ZADD', KEYS[2], 'NX', 0, 'notifications') == 1 then
  redis.call('HSET', KEYS[3], 'name', ARGV[3], 'created', ARGV[2])
end
return made
