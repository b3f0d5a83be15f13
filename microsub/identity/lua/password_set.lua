-- Sets the password of a user who may sign in.
--
-- Atomic: the look at the user, at the invitation and at the former password, and the write. An invitation is good once,
-- a password that was changed meanwhile isn't overwritten, and a disabled user never has one.
--
-- KEYS  1 user  2 credentials  3 invitation
-- ARGV  1 hash of the password  2 now, or '' to leave the time of the change as it is  3 hash that it replaces, or ''
--       4 digest of the invitation, or ''
-- reply 0: no such user, or disabled; -1: the invitation isn't good; -2: another password stands there; 1
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'disabled') == 1 then return 0 end
if ARGV[4] ~= '' and redis.call('GET', KEYS[3]) ~= ARGV[4] then return -1 end
if ARGV[3] ~= '' and redis.call('HGET', KEYS[2], 'password') ~= ARGV[3] then return -2 end
redis.call('HSET', KEYS[2], 'password', ARGV[1])
if ARGV[2] ~= '' then redis.call('HSET', KEYS[2], 'changed', ARGV[2]) end
if ARGV[4] ~= '' then redis.call('DEL', KEYS[3]) end
return 1
