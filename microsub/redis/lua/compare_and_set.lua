-- Sets or deletes a field of a hash, as long as it is what was read.
--
-- Atomic: the comparison and the write, so that what others wrote meanwhile is never lost.
--
-- KEYS  1 hash  2 user, where they must be there and not disabled
-- ARGV  1 name of the field  2 value as it was read  3 value from now on or '' for none
-- reply 1 where it was changed, else 0
-- include: in_force
if KEYS[2] and not is_active(KEYS[2]) then return 0 end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return 1
