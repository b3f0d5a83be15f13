-- Replaces fields of an item.
--
-- Atomic: only an item that exists is written to (one that was swept meanwhile stays gone), and none that a later
-- document has changed or confirmed already. What completes a version is written to that version alone.
--
-- KEYS  1 item
-- ARGV  1 version of the change, '' for one without order  2 the hash of the version that is completed, '' for a change
--       3.. per field: name, value
-- reply 1 where it was written, else 0
local now = redis.call('HMGET', KEYS[1], 'version', 'confirmed', 'hash')
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[2] ~= '' then
  if (now[1] or '') ~= ARGV[1] or now[3] ~= ARGV[2] then return 0 end
elseif ARGV[1] ~= '' and ((now[1] or '') > ARGV[1] or (now[2] or '') > ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
return 1
