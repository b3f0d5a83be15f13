-- Gives a channel's topic an address, or removes it.
--
-- Atomic: the check for the channel and the secret, so concurrent requests get the same address, and a channel that is
-- deleted meanwhile doesn't come back.
--
-- KEYS  1 channel
-- ARGV  1 action: 'create' (returns an existing address), 'renew' or 'revoke'  2 secret: a new one
-- reply the secret in its address, '' for none; nil if there is no such channel
local name, removed, secret = unpack(redis.call('HMGET', KEYS[1], 'name', 'removed', 'topic'))
if not name or removed then return false end
if ARGV[1] == 'revoke' then
  redis.call('HDEL', KEYS[1], 'topic')
  return ''
end
if secret and ARGV[1] == 'create' then return secret end
redis.call('HSET', KEYS[1], 'topic', ARGV[2])
return ARGV[2]
