-- Creates a channel, or finds the existing one.
--
-- Atomic: looking for the name (or the uid), counting, choosing a free uid and writing, so that two requests for one
-- name create one channel, and concurrent requests don't exceed the limit. The uids of removed channels aren't free:
-- these channels can be restored.
--
-- KEYS  1 user  2 channels  3 removed_channels  4 live_events
-- ARGV  1 name  2 now  3 channel_pattern  4 by: 'name': find it by name; 'uid': find it by uid  5 most: limit of
--       channels without those that everybody has, 0 for no limit  6.. uids: to try
-- reply {''}: no such user; {'removed'}: a removed channel has that uid; {uid, 1 if created}; {'taken'}: no uid is
--       free; {'', count}: the limit is reached
-- include: events
if redis.call('EXISTS', KEYS[1]) == 0 then return { '' } end
local function key(uid) return (string.gsub(ARGV[3], '%*', uid)) end
if ARGV[4] == 'name' then
  for _, uid in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if redis.call('HGET', key(uid), 'name') == ARGV[1] then return { uid, 0 } end
  end
end
local most = tonumber(ARGV[5])
local function full()
  if most == 0 then return nil end
  local count = redis.call('ZCARD', KEYS[2])
  for _, uid in ipairs({ 'notifications', 'saved' }) do
    if redis.call('ZSCORE', KEYS[2], uid) then count = count - 1 end
  end
  return count >= most and count or nil
end
for i = 6, #ARGV do
  local uid = ARGV[i]
  local known = redis.call('ZSCORE', KEYS[2], uid)
  local removed = redis.call('ZSCORE', KEYS[3], uid)
  if ARGV[4] == 'uid' then
    if known then return { uid, 0 } end
    if removed then return { 'removed' } end
  end
  if not known and not removed then
    local count = full()
    if count then return { '', count } end
    local last = redis.call('ZREVRANGEBYSCORE', KEYS[2], '(+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    redis.call('ZADD', KEYS[2], math.floor(tonumber(last[2] or 0)) + 1, uid)
    redis.call('HSET', key(uid), 'name', ARGV[1], 'created', ARGV[2], 'changed', ARGV[2])
    note_channel(KEYS[4], 'new channel', uid)
    return { uid, 1 }
  end
end
return { 'taken' }
