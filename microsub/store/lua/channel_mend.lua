-- Brings a channel's description and its place in the user's lists together.
--
-- Atomic: both are judged here, so a channel that is made, removed or deleted meanwhile isn't touched wrongly. A channel
-- that has a description or a place exists; one that is marked as removed is so.
--
-- KEYS  1 channels  2 removed channels  3 channel  4 user
-- ARGV  1 uid  2 now
-- reply 0: no such channel; 1
local uid, now = ARGV[1], ARGV[2]
local active = redis.call('ZSCORE', KEYS[1], uid)
local aside = redis.call('ZSCORE', KEYS[2], uid)
if not active and not aside and redis.call('EXISTS', KEYS[3]) == 0 then return 0 end
local head = redis.call('HMGET', KEYS[3], 'name', 'removed', 'position', 'created')
if not head[1] or head[1] == '' then redis.call('HSET', KEYS[3], 'name', uid, 'changed', now) end
if not head[4] then redis.call('HSET', KEYS[3], 'created', now) end
local marked = head[2] and tonumber(head[2])
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local place = math.floor(tonumber(last[2] or 0)) + 1
if (aside and not active) or (marked and not active) or (aside and marked) then
  redis.call('ZREM', KEYS[1], uid)
  redis.call('ZADD', KEYS[2], marked or aside, uid)
  redis.call('HSET', KEYS[3], 'removed', marked or aside, 'position', tonumber(head[3] or '') or active or place)
else
  redis.call('ZREM', KEYS[2], uid)
  if not active then redis.call('ZADD', KEYS[1], place, uid) end
  redis.call('HDEL', KEYS[3], 'removed', 'position')
end
redis.call('HINCRBY', KEYS[4], 'shape', 1)
return 1
