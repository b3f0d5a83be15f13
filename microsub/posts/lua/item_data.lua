-- The JSON of an item, or its size if that is larger.
--
-- Atomic: the size is that of the JSON which is returned. Writes nothing.
--
-- KEYS  1 item
-- ARGV  1 maximum bytes
-- reply the JSON, or its size in bytes; nothing for a missing item
local size = redis.call('HSTRLEN', KEYS[1], 'Data')
if size > tonumber(ARGV[1]) then return size end
return redis.call('HGET', KEYS[1], 'Data')
