-- Writes a new source of a user.
--
-- Atomic: the count of sources and the new one, so that no number of requests at once makes more than there may be.
--
-- KEYS  1 user  2 sources
-- ARGV  1 id  2 value  3 how many sources there may be, or '' for any number
-- reply -1: no such user; 0: there is one of that id; 1 written; 2 + count: that many there are, and no more may be
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 0 end
local count = redis.call('HLEN', KEYS[2])
if ARGV[3] ~= '' and count >= tonumber(ARGV[3]) then return 2 + count end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
