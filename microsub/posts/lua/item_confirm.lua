-- Notes that a document has an item as it is stored.
--
-- Atomic: an item that is otherwise in this moment is left to an edit.
--
-- KEYS  1 item
-- ARGV  1 version of the document  2 hash of the post in it
-- reply 0 where the item is otherwise, else 1
local before = redis.call('HMGET', KEYS[1], 'hash', 'confirmed')
if before[1] and before[1] ~= ARGV[2] then return 0 end
if before[1] and (before[2] or '') < ARGV[1] then redis.call('HSET', KEYS[1], 'confirmed', ARGV[1]) end
return 1
