-- Replaces what is kept of a passkey, as long as it is what was read.
--
-- Atomic: the comparison and the write, so that a counter never goes back, and a passkey that was removed stays away.
--
-- KEYS  1 user  2 passkeys
-- ARGV  1 credential id  2 JSON as it was read  3 JSON from now on
-- reply 0: the user is gone or disabled, or something else stands there; 1
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'disabled') == 1 then return 0 end
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return 1
