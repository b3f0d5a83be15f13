-- Gives a channel's topic an address, or takes it away.
--
-- Atomic: the look whether the channel is there, and the secret, so that two requests at once give one address, and a
-- channel that is deleted meanwhile doesn't come back.
--
-- KEYS  1 channel
-- ARGV  1 'create' (the address that there is, or this one), 'renew' or 'revoke'  2 a new secret
-- reply the secret in its address, '' for none; nil where there is no such channel
local name, removed, secret = unpack(redis.call('HMGET', KEYS[1], 'name', 'removed', 'topic'))
if not name or removed then return false end
if ARGV[1] == 'revoke' then
  redis.call('HDEL', KEYS[1], 'topic')
  return ''
end
if secret and ARGV[1] == 'create' then return secret end
redis.call('HSET', KEYS[1], 'topic', ARGV[2])
return ARGV[2]
