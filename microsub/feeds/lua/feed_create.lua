-- Creates the record of a feed that nobody follows yet.
--
-- Atomic: the record and its time to live, so that no crash makes it permanent; an existing record isn't changed.
--
-- KEYS  1 feed
-- ARGV  1 url  2 now  3 life: time to live in seconds
-- reply 1 if it was created, otherwise 0
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'url', ARGV[1], 'created', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
