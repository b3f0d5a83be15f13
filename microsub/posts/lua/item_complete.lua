-- Replaces fields of an item with what look-ups have added to them.
--
-- Atomic: only while the item is what the look-ups were made for; an edit since then has look-ups of its own.
--
-- KEYS  1 item
-- ARGV  1 version that was completed  2 its hash  3.. per field: name, value
-- reply 1 where it was written, else 0
local now = redis.call('HMGET', KEYS[1], 'version', 'hash')
if (now[1] or '') ~= ARGV[1] or not now[2] or now[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
return 1
