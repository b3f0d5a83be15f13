-- Writes a record of a user who may sign in: a session, an authorization code, a password, a passkey.
--
-- Atomic: the check of the user, the invitation and the existing records, and the write. So nothing is created for a user
-- who was disabled meanwhile, an invitation is valid once, and a record is always in the list by which it is found.
--
-- KEYS  1 user  2 record  3 invitation  4 listed?: set of such records' digests, if there is one
-- ARGV  1 code?: digest of the invitation, or ''  2 most?: maximum number of fields, for one that must be new; '' to
--       overwrite  3 life?: seconds that it is kept, or ''  4 digest?: its digest  5.. fields: pairs of field and value
-- reply 0: no such user, or disabled; -1: the invitation isn't valid; -2: the maximum is reached; -3: the field exists
--       already; 1, or with a set the number of digests in it
-- include: active
if not is_active(KEYS[1]) then return 0 end
if ARGV[1] ~= '' and redis.call('GET', KEYS[3]) ~= ARGV[1] then return -1 end
if ARGV[2] ~= '' then
  if redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[2]) then return -2 end
  if redis.call('HEXISTS', KEYS[2], ARGV[5]) == 1 then return -3 end
end
redis.call('HSET', KEYS[2], unpack(ARGV, 5))
if ARGV[1] ~= '' then redis.call('DEL', KEYS[3]) end
if ARGV[3] ~= '' then redis.call('EXPIRE', KEYS[2], ARGV[3]) end
if KEYS[4] then
  redis.call('SADD', KEYS[4], ARGV[4])
  redis.call('EXPIRE', KEYS[4], ARGV[3])
  return redis.call('SCARD', KEYS[4])
end
return 1
