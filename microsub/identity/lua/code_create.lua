-- Writes an authorization code of a user who may sign in.
--
-- Atomic: the look at the user and the write, so that nobody who was disabled meanwhile gets a code.
--
-- KEYS  1 user  2 code
-- ARGV  1 seconds that the record is kept, then pairs of field and value
-- reply 0: no such user, or a disabled one; 1
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'disabled') == 1 then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[2], ARGV[1])
return 1
