-- Deletes a channel, removed or not, and everything that belongs to it.
--
-- Atomic: no add or mark finds half a channel and writes a key that nobody would ever delete; and the user's `shape`
-- (channel_change.lua), since another channel may get this uid.
--
-- KEYS  1 channels  2 removed channels  3 user  4 the channel's feeds  5.. all other keys of the channel
-- ARGV  1 uid  2 'removed': only when it is removed, so that a channel restored a moment ago survives; or ''
-- reply ids of the feeds that it followed, or 0: no such channel
local known = redis.call('ZREM', KEYS[2], ARGV[1])
if ARGV[2] == '' then known = known + redis.call('ZREM', KEYS[1], ARGV[1]) end
if known == 0 then return 0 end
redis.call('HINCRBY', KEYS[3], 'shape', 1)
local feeds = redis.call('HKEYS', KEYS[4])
for i = 4, #KEYS do redis.call('UNLINK', KEYS[i]) end
return feeds
