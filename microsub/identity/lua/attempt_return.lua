-- Gives back an attempt that was let through and didn't fail, with the pause that it began.
--
-- Atomic: the count goes down only where it is, and an empty one leaves.
--
-- KEYS  1 attempts
-- ARGV  none
-- reply the count that is left
local count = tonumber(redis.call('HGET', KEYS[1], 'count') or '0')
if count <= 1 then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('HSET', KEYS[1], 'count', count - 1, 'until', '0')
return count - 1
