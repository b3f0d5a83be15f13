-- Changes what a feed's URL leads to, or forgets the URL.
--
-- Atomic: only while it leads to what was found there; so of somebody who is about to use the feed and a sweep that is
-- about to forget its URL, one sees the other.
--
-- KEYS  1 feeds by URL
-- ARGV  1 URL  2 what was found there  3 what stands there from now on, or '' for nothing
-- reply 1 where it was changed, else 0
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then return redis.call('HDEL', KEYS[1], ARGV[1]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
