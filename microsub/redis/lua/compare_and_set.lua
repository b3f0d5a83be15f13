-- Sets or deletes fields of a hash, each as long as it is what was read.
--
-- Atomic: per field the comparison and the write, so that what others wrote meanwhile is never lost.
--
-- KEYS  1 hash  2 user, where they must be there and not disabled
-- ARGV  per field: name, value as it was read, value from now on or '' for none
-- reply how many were changed
-- include: user
if KEYS[2] and not is_active(KEYS[2]) then return 0 end
local changed = 0
for i = 1, #ARGV, 3 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    if ARGV[i + 2] == '' then
      redis.call('HDEL', KEYS[1], ARGV[i])
    else
      redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
    end
    changed = changed + 1
  end
end
return changed
