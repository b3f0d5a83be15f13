-- Writes a record with an end, of a user who may sign in: a session, an authorization code.
--
-- Atomic: the look at the user and the write, so that nothing begins for a user who was disabled meanwhile, and no
-- record stands without its line in the list by which it can be found and ended.
--
-- KEYS  1 user  2 record  3 set of such records' digests, where there is one
-- ARGV  1 digest of the record  2 seconds that it is kept  3.. pairs of field and value
-- reply 0: no such user, or disabled; 1
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'disabled') == 1 then return 0 end
redis.call('HSET', KEYS[2], unpack(ARGV, 3))
redis.call('EXPIRE', KEYS[2], ARGV[2])
if KEYS[3] then
  redis.call('SADD', KEYS[3], ARGV[1])
  redis.call('EXPIRE', KEYS[3], ARGV[2])
end
return 1
