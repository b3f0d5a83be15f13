-- Brings an item of one channel back to the place that all timelines give it.
--
-- Atomic: the sets change together, and only where the item stands.
--
-- KEYS  1 posts  2 unread  3 read  4 hidden  5 hidden-read  6 gone
-- ARGV  1 id  2 score
-- reply the number of sets that changed
local count = 0
for _, place in ipairs({ 1, 2, 4 }) do
  count = count + redis.call('ZADD', KEYS[place], 'XX', 'CH', ARGV[2], ARGV[1])
end
return count
