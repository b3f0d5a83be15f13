-- Marks an item that nobody refers to, so that the next sweep may delete it.
--
-- Atomic: only an item that exists; the time of the first marking stays, unless it lies
-- ahead: a clock was wrong, and nobody would ever delete the item.
--
-- KEYS  1 item
-- ARGV  1 now
-- reply the time since which it is marked, or '' where it doesn't exist
if redis.call('EXISTS', KEYS[1]) == 0 then return '' end
if (tonumber(redis.call('HGET', KEYS[1], 'condemned') or '') or math.huge) > tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'condemned', ARGV[1])
end
return redis.call('HGET', KEYS[1], 'condemned')
