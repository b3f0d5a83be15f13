-- Writes a session of a user who exists and isn't disabled.
--
-- Atomic: a session never stands without its line in the list by which it can be found and ended, nor begins for a user
-- who has just left.
--
-- KEYS  1 user  2 session  3 sessions
-- ARGV  1 digest  2 seconds that it lives  3.. fields and values
-- reply 0: no such user, or disabled; 1
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'disabled') == 1 then return 0 end
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('SADD', KEYS[3], ARGV[1])
redis.call('EXPIRE', KEYS[3], ARGV[2])
return 1
