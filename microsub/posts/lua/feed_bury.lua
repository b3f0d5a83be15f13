-- Removes items from a feed's order, and notes their guids as tombstones.
--
-- Atomic: a guid that now stands for another item is left alone.
--
-- KEYS  1 feed  2 feed_guids  3 feed_items  4 feed_tombstones  5 feed_outbox
-- ARGV  1 now  2 life: time to live if the feed is gone  3.. doomed: per item: id, guid
-- reply number of items that left the order
local left = 0
for at = 3, #ARGV, 2 do
  local id, guid = ARGV[at], ARGV[at + 1]
  left = left + redis.call('ZREM', KEYS[3], id)
  redis.call('SREM', KEYS[5], id)
  if guid ~= '' and redis.call('HGET', KEYS[2], guid) == id then redis.call('ZADD', KEYS[4], ARGV[1], guid) end
end
local ttl = redis.call('TTL', KEYS[1])
if ttl ~= -1 and redis.call('EXISTS', KEYS[4]) == 1 then
  if ttl < 1 then ttl = ARGV[2] end
  redis.call('EXPIRE', KEYS[4], ttl)
end
return left
