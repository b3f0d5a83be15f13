-- Redeems an authorization code: for a grant with an access token and a refresh token, or only for the profile.
--
-- Atomic: the check of the code, its use, and the write of the grant. So of two concurrent requests one creates the
-- tokens and the other finds them, a crash leaves either an unused code or the whole grant, and no grant outlives a
-- noticed misuse.
--
-- KEYS  1 user  2 code  3 grant  4 grants  5 access_token  6 tokens
-- ARGV  1 now  2 fits: '1' if the request fits the code  3 use: 'token' or 'profile'  4 repeat: seconds in which the
--       same request gets the same reply  5 token_pattern  6 id?: of the grant (6 to 13 for 'token')  7 access?: digest
--       of the access token  8 access_expires?  9 refresh?: digest of the refresh token  10 seed?: of the next one
--       11 expires?: of the grant  12 most?: maximum number of grants and tokens of the user, 0 for none
--       13 grant_pattern?
-- reply 'unknown'; 'disabled'; 'expired'; 'refused': it didn't fit, and the code is used up; 'reused': it was used
--       before, and its grant is ended; 'given'; 'again': the same request a moment ago; 'full': the maximum is
--       reached, and the code isn't changed
-- include: grants
-- include: active
local code = redis.call('HMGET', KEYS[2], 'expires', 'used', 'use', 'grant', 'client', 'scope', 'title', 'source')
if not code[1] then return 'unknown' end
local now, fits = tonumber(ARGV[1]), ARGV[2] == '1'
if not is_active(KEYS[1]) then return 'disabled' end
if code[2] then
  local same = fits and code[3] == ARGV[3] and now - tonumber(code[2]) <= tonumber(ARGV[4])
  if same and (ARGV[3] == 'profile' or redis.call('EXISTS', KEYS[5]) == 1) then return 'again' end
  redis.call('HSET', KEYS[2], 'use', 'ended')
  if code[4] then end_grant(KEYS[3], KEYS[4], KEYS[6], code[4], ARGV[5]) end
  return 'reused'
end
if tonumber(code[1]) <= now then return 'expired' end
if fits and ARGV[3] == 'token' and tonumber(ARGV[12]) > 0
  and held(KEYS[4], KEYS[6], ARGV[13], ARGV[5]) >= tonumber(ARGV[12]) then return 'full' end
redis.call('HSET', KEYS[2], 'used', ARGV[1], 'use', fits and ARGV[3] or 'refused')
if not fits then return 'refused' end
if ARGV[3] == 'profile' then return 'given' end
redis.call('HSET', KEYS[2], 'grant', ARGV[6])
redis.call('HSET', KEYS[3], 'client', code[5], 'title', code[7], 'scope', code[6], 'created', ARGV[1], 'expires',
  ARGV[11], 'refresh', ARGV[9], 'seed', ARGV[10], 'tokens', ARGV[7])
if code[8] then redis.call('HSET', KEYS[3], 'source', code[8]) end
redis.call('EXPIREAT', KEYS[3], math.ceil(tonumber(ARGV[11])))
redis.call('SADD', KEYS[4], ARGV[6])
give_token(KEYS[5], KEYS[6], ARGV[7], code[6], code[5], ARGV[1], ARGV[8], ARGV[6])
return 'given'
