-- Replaces fields of an item with what look-ups have added to them.
--
-- Atomic: only while the item is what the look-ups were made for; an edit since then has look-ups of its own.
--
-- KEYS  1 item
-- ARGV  1 version that was completed  2.. per field: name, value
-- reply 1 where it was written, else 0
if (redis.call('HGET', KEYS[1], 'version') or '') ~= ARGV[1] or redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return 1
