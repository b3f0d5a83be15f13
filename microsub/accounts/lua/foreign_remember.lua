-- Stores the response of a user's own provider as a token record, which every script that checks tokens reads.
--
-- Atomic: the check of the user and the write. A token that was checked with a former profile or endpoint of the user
-- isn't stored, nor one of a disabled user; a change of these finds all tokens stored before it.
--
-- KEYS  1 user  2 token  3 foreign  4 foreign_refused
-- ARGV  1 digest  2 me  3 endpoint: for tokens, or ''  4 scopes  5 client  6 now  7 until: when a new check is needed
--       8 end: of the record  9 life: seconds until then  10 ends: the provider's own time of expiry or ''  11 most:
--       maximum number of tokens of a user  12 token_pattern
-- reply 1; 0: not stored
local user = redis.call('HMGET', KEYS[1], 'me', 'token_endpoint', 'disabled')
if not user[1] or user[1] ~= ARGV[2] or (user[2] or '') ~= ARGV[3] or user[3] then return 0 end
local token = redis.call('HMGET', KEYS[2], 'scope', 'foreign')
if token[1] and not token[2] then return 0 end
redis.call('HSET', KEYS[2], 'scope', ARGV[4], 'client', ARGV[5], 'expires', ARGV[7], 'checked', ARGV[6], 'foreign', 1)
redis.call('HSETNX', KEYS[2], 'created', ARGV[6])
if ARGV[10] == '' then redis.call('HDEL', KEYS[2], 'ends') else redis.call('HSET', KEYS[2], 'ends', ARGV[10]) end
redis.call('EXPIRE', KEYS[2], ARGV[9])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[6])
redis.call('ZADD', KEYS[3], ARGV[8], ARGV[1])
local over = redis.call('ZCARD', KEYS[3]) - tonumber(ARGV[11])
if over > 0 then
  for _, digest in ipairs(redis.call('ZRANGE', KEYS[3], 0, over - 1)) do
    redis.call('DEL', (string.gsub(ARGV[12], '%*', digest)))
    redis.call('ZREM', KEYS[3], digest)
  end
end
local last = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
if last[2] then redis.call('EXPIRE', KEYS[3], math.max(1, math.ceil(tonumber(last[2]) - tonumber(ARGV[6])))) end
redis.call('DEL', KEYS[4])
return 1
