-- Replaces fields of an item, or notes that a document has it as it is stored.
--
-- Atomic: only an item that exists is written to (one that was swept meanwhile stays gone), and none that a later
-- document has changed or confirmed already. What completes a version is written to that version alone, and an item that
-- is otherwise in this moment than a document has it is left to an edit.
--
-- KEYS  1 item
-- ARGV  1 'change', 'complete' or 'confirm'  2 version of the change or of the document, '' for one without order
--       3 the hash of the version that is completed, or of the post in the document  4.. per field: name, value
-- reply 1 where it was written; of 'confirm' 0 where the item is otherwise, else 1
local action, version = ARGV[1], ARGV[2]
if redis.call('EXISTS', KEYS[1]) == 0 then return action == 'confirm' and 1 or 0 end
local now = redis.call('HMGET', KEYS[1], 'version', 'confirmed', 'hash')
local before, confirmed, hash = now[1] or '', now[2] or '', now[3]
if action == 'confirm' then
  if hash ~= ARGV[3] then return 0 end
  if confirmed < version then redis.call('HSET', KEYS[1], 'confirmed', version) end
  return 1
end
if action == 'complete' then
  if before ~= version or hash ~= ARGV[3] then return 0 end
elseif version ~= '' and (before > version or confirmed > version) then
  return 0
end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
return 1
