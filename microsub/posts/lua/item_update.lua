-- Replaces fields of an item, or notes that a document confirms it as stored.
--
-- Atomic: an item is written only if it exists (a deleted one isn't recreated) and no later document has changed or
-- confirmed it. The result of a look-up is written only to its version, and an item that differs from the document at
-- this moment is left to an edit. A link that isn't stored is the guid, and an
-- author its site, so they are stored when the guid changes.
--
-- KEYS  1 item
-- ARGV  1 how: 'change', 'complete' or 'confirm'  2 version?: of the change or of the document, '' without an order
--       3 hash?: of the version that is completed, or of the post in the document  4.. fields: per field: name, value
-- reply 1 if it was written; for 'confirm' 0 if the item differs, otherwise 1
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
for at = 4, #ARGV, 2 do
  if ARGV[at] == 'guid' or ARGV[at] == 'written_guid' then
    local named = redis.call('HMGET', KEYS[1], 'written_guid', 'guid')
    redis.call('HSETNX', KEYS[1], 'link', named[1] and named[1] ~= '' and named[1] or named[2] or '')
    redis.call('HSETNX', KEYS[1], 'author', string.match(named[2] or '', '^https://[^/]+/') or '')
  end
end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
return 1
