-- Starts keeping a user's events, or keeps them longer.
--
-- Atomic: the stream always has an entry, so the last one is a position from which it can be read, and it always has its
-- time to live.
--
-- KEYS  1 live_events
-- ARGV  1 kept: seconds for which events are kept
-- reply id of the last entry
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('XADD', KEYS[1], '*', 'event', 'opened') end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1]
