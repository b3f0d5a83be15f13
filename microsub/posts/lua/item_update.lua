-- Replaces fields of an item.
--
-- Atomic: only an item that exists is written to (one that was swept meanwhile stays gone), and none that a later
-- document has changed or confirmed already.
--
-- KEYS  1 item
-- ARGV  1 version of the change, '' for one without order  2.. per field: name, value
-- reply 1 where it was written, else 0
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[1] ~= '' then
  for _, version in ipairs(redis.call('HMGET', KEYS[1], 'version', 'confirmed')) do
    if version and version > ARGV[1] then return 0 end
  end
end
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return 1
