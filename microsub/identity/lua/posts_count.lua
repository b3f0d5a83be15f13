-- Adds to the bytes of a user's own posts, or sets them.
--
-- Atomic: nothing is written for a user that was deleted meanwhile.
--
-- KEYS  1 user
-- ARGV  1 'add' or 'set'  2 bytes
-- reply 0: there is no such user; 1
if redis.call('HEXISTS', KEYS[1], 'me') == 0 then return 0 end
if ARGV[1] == 'set' then
  redis.call('HSET', KEYS[1], 'post_bytes', ARGV[2])
else
  redis.call('HINCRBY', KEYS[1], 'post_bytes', ARGV[2])
end
return 1
