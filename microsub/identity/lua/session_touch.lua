-- Notes that a session was used, which extends it.
--
-- Atomic: a session that has been ended meanwhile isn't written again.
--
-- KEYS  1 session  2 sessions
-- ARGV  1 now  2 seconds that it lives from now on
-- reply 0: there is none; 1
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'seen', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
