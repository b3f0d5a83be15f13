-- Removes posts from a feed's outbox: delivery and the stream of events have them.
--
-- Atomic: nothing but this set is touched.
--
-- KEYS  1 feed_outbox
-- ARGV  1.. ids
-- reply nothing
for at = 1, #ARGV, 1000 do redis.call('SREM', KEYS[1], unpack(ARGV, at, math.min(at + 999, #ARGV))) end
