-- Adds a passkey of a user who may sign in.
--
-- Atomic: the look at the user, at the invitation and at the number of passkeys, and the write. An invitation is good
-- once, and a disabled user never has a passkey.
--
-- KEYS  1 user  2 passkeys  3 invitation
-- ARGV  1 credential id  2 JSON  3 most passkeys of one user  4 digest of the invitation, or ''
-- reply 0: no such user, or disabled; -1: the invitation isn't good; -2: there are as many as there may be; -3: this one
--       is there already; 1
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'disabled') == 1 then return 0 end
if ARGV[4] ~= '' and redis.call('GET', KEYS[3]) ~= ARGV[4] then return -1 end
if redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[3]) then return -2 end
if redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2]) == 0 then return -3 end
if ARGV[4] ~= '' then redis.call('DEL', KEYS[3]) end
return 1
