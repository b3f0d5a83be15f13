-- Begins a reading of a feed: gives it a number and returns the feed's state.
--
-- Atomic: each reading has its own number, larger than earlier ones even if a clock is set back. Writes of earlier
-- readings are refused from now on.
--
-- KEYS  1 feed  2 feed_edition: of its subscribers  3 feed_fingerprints
-- ARGV  1 most: bytes of fingerprints to return, since the caller may not need them
-- reply {number, fields and values of the feed in turn, the edition, the fingerprints or ''}; nothing if there is no
--       such feed
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
-- Redis' own time in seconds: a record that was lost and restored continues with larger numbers than before.
local time = redis.call('TIME')
local now = tonumber(time[1]) + math.floor(tonumber(time[2]) / 1000) / 1000
local last = tonumber(redis.call('HGET', KEYS[1], 'reading') or '') or 0
local reading = string.format('%.3f', math.max(now, last + 0.001))
redis.call('HSET', KEYS[1], 'reading', reading)
local fingerprints = ''
if redis.call('STRLEN', KEYS[3]) <= tonumber(ARGV[1]) then fingerprints = redis.call('GET', KEYS[3]) or '' end
return { reading, redis.call('HGETALL', KEYS[1]), redis.call('GET', KEYS[2]), fingerprints }
