-- Writes a new field of a hash.
--
-- Atomic: the count of fields and the write, so concurrent requests can't exceed the limit.
--
-- KEYS  1 owner  2 record
-- ARGV  1 name  2 value  3 most: maximum number of fields, or '' for no limit
-- reply -1: no such owner; 0: the name exists already; 1 written; 2 + count: there are that many, the limit is reached
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 0 end
local count = redis.call('HLEN', KEYS[2])
if ARGV[3] ~= '' and count >= tonumber(ARGV[3]) then return 2 + count end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
