-- Writes a token of a user that exists.
--
-- Atomic: a token never stands without its line in the list by which it can be found and revoked.
--
-- KEYS  1 user  2 token  3 tokens
-- ARGV  1 digest  2 scopes  3 client  4 now  5 time of expiry or ''
-- reply 0: no such user; 1
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], 'scope', ARGV[2], 'client', ARGV[3], 'created', ARGV[4])
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[2], 'expires', ARGV[5])
  redis.call('EXPIREAT', KEYS[2], math.ceil(tonumber(ARGV[5])))
end
redis.call('SADD', KEYS[3], ARGV[1])
return 1
