-- Takes notes of waiting posts back, where nothing was added to them since they were read.
--
-- Atomic: the comparison and the deletion, so that what a fan-out notes meanwhile is never lost.
--
-- KEYS  1 behind
-- ARGV  per note: field, value as it was read
-- reply how many were taken back
local done = 0
for i = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then done = done + redis.call('HDEL', KEYS[1], ARGV[i]) end
end
return done
