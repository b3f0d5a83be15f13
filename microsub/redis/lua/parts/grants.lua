-- Tokens and grants are in the slot of their user. A token's key is built from a pattern: `*` stands for its digest.
local function token_key(pattern, digest)
  return (string.gsub(pattern, '%*', digest))
end

-- Deletes a grant, with every access token issued for it.
local function end_grant(grant, grants, tokens, id, pattern)
  local listed = redis.call('HGET', grant, 'tokens')
  if not listed then return 0 end
  for digest in string.gmatch(listed, '%S+') do
    redis.call('DEL', token_key(pattern, digest))
    redis.call('SREM', tokens, digest)
  end
  redis.call('DEL', grant)
  redis.call('SREM', grants, id)
  return 1
end

-- Writes an access token that belongs to a grant.
local function give_token(token, tokens, digest, scope, client, now, expires, id)
  redis.call('HSET', token, 'scope', scope, 'client', client, 'created', now, 'expires', expires, 'grant', id)
  redis.call('EXPIREAT', token, math.ceil(tonumber(expires)))
  redis.call('SADD', tokens, digest)
end

-- The number of grants in force, and the number of tokens without a grant: the admin's own.
local function held(grants, tokens, grant_pattern, token_pattern)
  local count = 0
  for _, id in ipairs(redis.call('SMEMBERS', grants)) do
    count = count + redis.call('EXISTS', (string.gsub(grant_pattern, '%*', id)))
  end
  for _, digest in ipairs(redis.call('SMEMBERS', tokens)) do
    local token = redis.call('HMGET', token_key(token_pattern, digest), 'scope', 'grant')
    if token[1] and not token[2] then count = count + 1 end
  end
  return count
end
