-- Sets or deletes fields of a hash, as long as all of them are what was read.
--
-- Atomic: the comparison and the writes, so that what others wrote meanwhile is never lost.
--
-- KEYS  1 hash  2 user, where they must be there and not disabled
-- ARGV  1.. per field: name, value as it was read, '' for none, and value from now on, '' for none
-- reply 1 where they were changed, else 0
-- include: in_force
if KEYS[2] and not is_active(KEYS[2]) then return 0 end
for i = 1, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
end
for i = 1, #ARGV, 3 do
  if ARGV[i + 2] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
  end
end
return 1
