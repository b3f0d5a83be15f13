-- Creates a token of a user who isn't disabled; if it has a mark, it replaces the earlier ones with that mark.
--
-- Atomic: a token is always in the list by which it is found and revoked, and of several created at the same time with
-- the same mark only one stays. An invalid expiry is refused before the first write, since EXPIREAT would fail between
-- two writes.
--
-- KEYS  1 user  2 token  3 tokens
-- ARGV  1 digest  2 scopes  3 client  4 now  5 expires?: or ''  6 mark?: or ''  7 token_pattern  8 foreign_refused_pattern
--       9 remembered: seconds for which the end of an earlier one is remembered
-- reply 0: no such user, or disabled; 1
-- include: active
local expires = ARGV[5] ~= '' and tonumber(ARGV[5])
if ARGV[5] ~= '' and not (expires and expires >= 0 and expires < 253402300800) then
  return redis.error_reply('ERR expires: no time before the year 10000')
end
if not is_active(KEYS[1]) then return 0 end
if ARGV[6] ~= '' then
  for _, digest in ipairs(redis.call('SMEMBERS', KEYS[3])) do
    local earlier = string.gsub(ARGV[7], '%*', digest)
    if redis.call('HGET', earlier, 'mark') == ARGV[6] then
      redis.call('DEL', earlier)
      redis.call('SREM', KEYS[3], digest)
      -- Otherwise requests with the ended token would ask the user's provider, or wait for it.
      redis.call('SET', (string.gsub(ARGV[8], '%*', digest)), 'ended', 'EX', ARGV[9])
    end
  end
  redis.call('HSET', KEYS[2], 'mark', ARGV[6])
end
redis.call('HSET', KEYS[2], 'scope', ARGV[2], 'client', ARGV[3], 'created', ARGV[4])
if expires then
  redis.call('HSET', KEYS[2], 'expires', ARGV[5])
  redis.call('EXPIREAT', KEYS[2], math.ceil(expires))
end
redis.call('SADD', KEYS[3], ARGV[1])
return 1
