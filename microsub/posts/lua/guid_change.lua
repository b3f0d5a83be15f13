-- Records new guids of stored items of one feed, and forgets those that the items had before their last ones.
--
-- Atomic: a guid that stands for another item is left alone, so two processes give each guid one item.
--
-- KEYS  1 feed_guids
-- ARGV  1.. changes: per item: new guid, id, the guid to forget or ''
-- reply per item the id that the guid belongs to
local owners = {}
for at = 1, #ARGV, 3 do
  local guid, id, forgotten = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local owner = redis.call('HGET', KEYS[1], guid)
  if not owner then
    redis.call('HSET', KEYS[1], guid, id)
    owner = id
  end
  if owner == id and forgotten ~= '' and forgotten ~= guid and redis.call('HGET', KEYS[1], forgotten) == id then
    redis.call('HDEL', KEYS[1], forgotten)
  end
  owners[#owners + 1] = owner
end
return owners
