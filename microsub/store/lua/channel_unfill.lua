-- Lets the next posts of a channel's feeds count as its first fill: what is older than the newest few comes in as read.
--
-- Atomic: a timeline that has, or had, anything in it is left alone, and so is a feed that isn't followed.
--
-- KEYS  1 feeds  2 unfilled  3 posts  4 hidden  5 gone
-- ARGV  1 now
-- reply 1 where the timeline was blank, else 0
if redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5]) > 0 then return 0 end
for _, feed in ipairs(redis.call('HKEYS', KEYS[1])) do redis.call('HSETNX', KEYS[2], feed, ARGV[1]) end
return 1
