-- Creates an output feed, changes its settings, or removes it.
--
-- Atomic: the check of the name, the count, and the write of the record, its list entry and its address. So concurrent
-- requests can't exceed the quota, and an address always leads to a feed or to a revocation. Items that have reached a
-- new limit of impressions are imported in the same step.
--
-- KEYS  1 user  2 outputs  3 output_addresses  4 output  5 output_published  6 output_imported  7 output_edited
--       8 output_impressions  9 output_editions  10 output_held  11 output_offered
-- ARGV  1 name  2 now  3 action: 'create' (also replaces a removed feed), 'change', 'put' (creates, changes or restores
--       a removed feed), 'remove' (from backend.json, may come back), 'delete', 'renew' or 'revoke' (its address)
--       4 most: maximum number of feeds, without removed ones, 0 for no limit  5 id  6 secret  7 digest: its SHA-256
--       8 most_addresses: maximum number of addresses  9 former: the former secret, or ''  10 former_digest: its
--       SHA-256  11 output_pattern  12.. fields: per setting: name, value, '' for none
-- reply {'user'} no such user; {'missing'} no such feed; {'taken'} the name exists;
--       {'full', count}; {'changed'} its address has changed since it was read; else {''}
-- include: fields
-- include: held
local name, now, action = ARGV[1], ARGV[2], ARGV[3]
if redis.call('EXISTS', KEYS[1]) == 0 then return { 'user' } end
local found = redis.call('HMGET', KEYS[4], 'id', 'removed', 'secret')
local there, removed, secret = found[1], found[2], found[3] or ''

local function revoke()
  if secret == '' then return end
  if redis.call('HLEN', KEYS[3]) > tonumber(ARGV[8]) then
    redis.call('HDEL', KEYS[3], ARGV[10])
  else
    redis.call('HSET', KEYS[3], ARGV[10], '')
  end
end

local function address()
  redis.call('HSET', KEYS[4], 'secret', ARGV[6])
  redis.call('HSET', KEYS[3], ARGV[7], name)
end

if action == 'create' and there and not removed then return { 'taken' } end
if action ~= 'create' and action ~= 'put' and (not there or (removed and action ~= 'delete')) then return { 'missing' } end
-- The former secret was read earlier; another request may have renewed it since.
if secret ~= ARGV[9] then return { 'changed' } end
if action == 'delete' or action == 'renew' or action == 'revoke' then
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
if not there or action == 'create' then
  local count, most = 0, tonumber(ARGV[4])
  for _, other in ipairs(most > 0 and redis.call('SMEMBERS', KEYS[2]) or {}) do
    if redis.call('HEXISTS', (string.gsub(ARGV[11], '%*', other)), 'removed') == 0 then count = count + 1 end
  end
  if most > 0 and count >= most then return { 'full', count } end
  revoke()
  for i = 4, #KEYS do redis.call('DEL', KEYS[i]) end
  redis.call('SADD', KEYS[2], name)
  redis.call('HSET', KEYS[4], 'id', ARGV[5], 'created', now, 'modified', now)
  address()
end
redis.call('HDEL', KEYS[4], 'removed')
redis.call('HSET', KEYS[4], 'changed', now, 'modified', now)
for i = 12, #ARGV, 2 do set_field(KEYS[4], ARGV[i], ARGV[i + 1] ~= '' and ARGV[i + 1]) end
local limit = tonumber(redis.call('HGET', KEYS[4], 'max_impressions') or 0)
local shown = limit > 0 and redis.call('HGETALL', KEYS[8]) or {}
for i = 1, #shown, 2 do
  if seen(shown[i + 1]) >= limit and redis.call('ZREM', KEYS[5], shown[i]) == 1 then redis.call('ZADD', KEYS[6], now, shown[i]) end
end
return { '' }
