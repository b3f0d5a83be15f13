-- Replaces fields of an item.
--
-- Atomic: only an item that exists is written to; one that was swept meanwhile stays gone.
--
-- KEYS  1 item
-- ARGV  1.. per field: name, value
-- reply 1 where the item exists, else 0
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
