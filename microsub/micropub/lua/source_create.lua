-- Writes a new source of a user.
--
-- Atomic: the count of sources and the write, so concurrent requests can't exceed the quota.
--
-- KEYS  1 user  2 sources
-- ARGV  1 id  2 value  3 most: maximum number of sources, or '' for no limit
-- reply -1: no such user; 0: the id exists already; 1 written; 2 + count: the user has that many, the limit is reached
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 0 end
local count = redis.call('HLEN', KEYS[2])
if ARGV[3] ~= '' and count >= tonumber(ARGV[3]) then return 2 + count end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
