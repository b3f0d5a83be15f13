-- Exchanges a refresh token for its successor and a new access token.
--
-- Atomic: the check that the refresh token is the newest, and its replacement. So of two concurrent requests one renews
-- and the other finds the result, and a stolen token is noticed when thief and owner have both used it.
--
-- KEYS  1 user  2 grant  3 grants  4 access_token: the new one  5 tokens
-- ARGV  1 now  2 id: of the grant  3 shown: digest of the refresh token shown  4 repeat: seconds in which the same
--       request gets the same reply  5 token_pattern  6 refresh: digest of the new refresh token  7 seed: of the one
--       after  8 expires: new expiry of the grant  9 access: digest of the new access token  10 scopes: its scopes
--       11 access_expires: its expiry  12 older_end: time at which older access tokens of the grant end  13 most:
--       maximum number of these
-- reply 'unknown'; 'disabled'; 'expired'; 'reused': not the newest refresh token, and the grant has been ended; 'given';
--       'again': the same request a moment ago
-- include: grants
-- include: active
local grant = redis.call('HMGET', KEYS[2], 'refresh', 'before', 'renewed', 'expires', 'tokens', 'client', 'seed')
if not grant[1] then return 'unknown' end
local now = tonumber(ARGV[1])
if not is_active(KEYS[1]) then return 'disabled' end
if tonumber(grant[4]) <= now then return 'expired' end
if ARGV[3] ~= grant[1] then
  local same = ARGV[3] == grant[2] and ARGV[6] == grant[1] and now - tonumber(grant[3]) <= tonumber(ARGV[4])
  if same and redis.call('EXISTS', KEYS[4]) == 1 then return 'again' end
  end_grant(KEYS[2], KEYS[3], KEYS[5], ARGV[2], ARGV[5])
  return 'reused'
end
local left = {}
for digest in string.gmatch(grant[5], '%S+') do
  local key = token_key(ARGV[5], digest)
  local expires = redis.call('HGET', key, 'expires')
  if expires and tonumber(expires) > now then
    if tonumber(expires) > tonumber(ARGV[12]) then
      redis.call('HSET', key, 'expires', ARGV[12])
      redis.call('EXPIREAT', key, math.ceil(tonumber(ARGV[12])))
    end
    left[#left + 1] = digest
  end
end
while #left > tonumber(ARGV[13]) do
  local oldest = table.remove(left, 1)
  redis.call('DEL', token_key(ARGV[5], oldest))
  redis.call('SREM', KEYS[5], oldest)
end
left[#left + 1] = ARGV[9]
redis.call('HSET', KEYS[2], 'refresh', ARGV[6], 'before', grant[1], 'seed', ARGV[7], 'before_seed', grant[7], 'renewed',
  ARGV[1], 'expires', ARGV[8], 'tokens', table.concat(left, ' '))
redis.call('EXPIREAT', KEYS[2], math.ceil(tonumber(ARGV[8])))
give_token(KEYS[4], KEYS[5], ARGV[9], ARGV[10], grant[6], ARGV[1], ARGV[11], ARGV[2])
return 'given'
