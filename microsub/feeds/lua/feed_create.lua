-- Writes the record of a feed that nobody follows yet.
--
-- Atomic: the record comes with its time to live, or a crash would keep it for ever; one that is there stays as it is.
--
-- KEYS  1 feed
-- ARGV  1 url  2 now  3 time to live in seconds
-- reply 1 where it was written, else 0
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'url', ARGV[1], 'created', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
