-- The handle by which a user's passkeys name them, made when it is asked for first.
--
-- Atomic: the look at the user and the write, so that all of a user's passkeys carry the same.
--
-- KEYS  1 user  2 credentials
-- ARGV  1 the handle, where there is none yet
-- reply the handle; nil where there is no such user, or a disabled one
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'disabled') == 1 then return nil end
redis.call('HSETNX', KEYS[2], 'handle', ARGV[1])
return redis.call('HGET', KEYS[2], 'handle')
