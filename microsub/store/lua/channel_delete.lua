-- Deletes a channel, removed or not, and everything that belongs to it.
--
-- Atomic: no add or mark finds half a channel and writes a key that nobody would ever delete.
--
-- KEYS  1 channels  2 removed channels  3 the channel's feeds  4.. all other keys of the channel
-- ARGV  1 uid  2 'removed': only when it is removed, so that a channel restored a moment ago survives; or ''
-- reply ids of the feeds that it followed, or 0: no such channel
local known = redis.call('ZREM', KEYS[2], ARGV[1])
if ARGV[2] == '' then known = known + redis.call('ZREM', KEYS[1], ARGV[1]) end
if known == 0 then return 0 end
local feeds = redis.call('HKEYS', KEYS[3])
for i = 3, #KEYS do redis.call('UNLINK', KEYS[i]) end
return feeds
