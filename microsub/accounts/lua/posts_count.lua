-- Adds to the bytes of a user's own posts, or sets them.
--
-- Atomic: nothing is written for a user that was deleted meanwhile.
--
-- KEYS  1 user
-- ARGV  1 how: 'add' or 'set'  2 size: in bytes
-- reply 1 if the user is registered, else 0; the bytes: both 0 if there is no such user
if redis.call('HEXISTS', KEYS[1], 'me') == 0 then return { 0, 0 } end
if ARGV[1] == 'set' then
  redis.call('HSET', KEYS[1], 'post_bytes', ARGV[2])
elseif ARGV[2] ~= '0' then
  redis.call('HINCRBY', KEYS[1], 'post_bytes', ARGV[2])
end
return { redis.call('HEXISTS', KEYS[1], 'registered'), tonumber(redis.call('HGET', KEYS[1], 'post_bytes') or 0) }
