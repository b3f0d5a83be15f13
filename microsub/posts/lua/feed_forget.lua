-- Deletes the tombstones of posts that the feed hasn't listed for a long time.
--
-- Atomic: a guid that is listed again at this moment keeps its tombstone.
--
-- KEYS  1 feed_guids  2 feed_tombstones
-- ARGV  1 before: last listed before  2 most: maximum number
-- reply number of forgotten ones
local old = redis.call('ZRANGE', KEYS[2], '-inf', '(' .. ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2])
for _, guid in ipairs(old) do
  redis.call('HDEL', KEYS[1], guid)
  redis.call('ZREM', KEYS[2], guid)
end
return #old
