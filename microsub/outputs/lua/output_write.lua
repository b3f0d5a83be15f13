-- Makes an output feed, changes its settings, or takes it away.
--
-- Atomic: looking for the name, counting, and writing the record with its place in the list and its address, so that no
-- two requests together make more feeds than there may be, and an address leads to a feed or was revoked.
--
-- KEYS  1 user  2 outputs  3 addresses  4.. the keys of the feed, its record first (keys.OUTPUT_KEYS)
-- ARGV  1 name  2 now  3 'create', 'change', 'put' (create or change, back from removal), 'remove' (from backend.json,
--       may come back), 'delete', 'renew' or 'revoke' (its address)
--       4 how many feeds there may be, 0 for any number  5 id  6 secret  7 its SHA-256  8 most addresses  9 SHA-256 of the
--       former secret  10.. per setting: name, value, '' for none
-- reply {'user'} no such user; {'missing'} no such feed; {'taken'} there is one; {'full', count}; {'changed'} its address was
--       another in this moment; else {''}
local name, now, action = ARGV[1], ARGV[2], ARGV[3]
if redis.call('EXISTS', KEYS[1]) == 0 then return { 'user' } end
local found = redis.call('HMGET', KEYS[4], 'id', 'removed')
local there, removed = found[1], found[2]

local function revoke()
  if ARGV[9] == '' then return end
  if redis.call('HLEN', KEYS[3]) > tonumber(ARGV[8]) then
    redis.call('HDEL', KEYS[3], ARGV[9])
  else
    redis.call('HSET', KEYS[3], ARGV[9], '')
  end
end

local function address()
  redis.call('HSET', KEYS[4], 'secret', ARGV[6])
  redis.call('HSET', KEYS[3], ARGV[7], name)
end

if action == 'create' and there and not removed then return { 'taken' } end
if action ~= 'create' and action ~= 'put' and (not there or (removed and action ~= 'delete')) then return { 'missing' } end
if action == 'delete' or action == 'renew' or action == 'revoke' then
  -- The former secret was read before; another request may have renewed it since.
  local secret = redis.call('HGET', KEYS[4], 'secret')
  if (secret or '') ~= ARGV[10] then return { 'changed' } end
  revoke()
  redis.call('HDEL', KEYS[4], 'secret')
  if action == 'renew' then address() end
  if action == 'delete' then
    redis.call('SREM', KEYS[2], name)
    for i = 4, #KEYS do redis.call('DEL', KEYS[i]) end
  end
  return { '' }
end
if action == 'remove' then
  redis.call('HSET', KEYS[4], 'removed', now)
  return { '' }
end
if not there then
  local count = redis.call('SCARD', KEYS[2])
  local most = tonumber(ARGV[4])
  if most > 0 and count >= most then return { 'full', count } end
  redis.call('SADD', KEYS[2], name)
  redis.call('HSET', KEYS[4], 'id', ARGV[5], 'created', now, 'modified', now)
  address()
end
redis.call('HDEL', KEYS[4], 'removed')
redis.call('HSET', KEYS[4], 'changed', now, 'modified', now)
for i = 10, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[4], ARGV[i])
  else
    redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1])
  end
end
return { '' }
