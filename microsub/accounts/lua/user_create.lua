-- Creates a user with the channels that every user has: notifications, the first one, and saved, the last one.
--
-- Atomic: a user always has these channels, and of two callers one creates the user and the other finds it.
--
-- KEYS  1 user  2 channels  3, 4 built_in: the channels 'notifications' and 'saved'
-- ARGV  1 me  2 now  3, 4 names: of the channels  5 how?: 'registered': created by signing in; ''
-- reply 1 if it was created, 0 if it existed
local made = redis.call('HSETNX', KEYS[1], 'me', ARGV[1])
if made == 1 then
  redis.call('HSET', KEYS[1], 'created', ARGV[2], 'names', 0, 'read_everywhere', 'yes')
  if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], ARGV[5], 1) end
end
if redis.call('ZADD', KEYS[2], 'NX', 0, 'notifications') == 1 then
  redis.call('HSET', KEYS[3], 'name', ARGV[3], 'created', ARGV[2])
end
if redis.call('ZADD', KEYS[2], 'NX', '+inf', 'saved') == 1 then
  redis.call('HSET', KEYS[4], 'name', ARGV[4], 'created', ARGV[2])
end
return made
