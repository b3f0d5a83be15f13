-- Deletes keys of a channel that doesn't exist.
--
-- Atomic: a channel of that uid that was made meanwhile keeps everything.
--
-- KEYS  1 channels  2 removed channels  3 channel  4.. its other keys
-- ARGV  1 uid
-- reply the number of keys that were deleted
if redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
local count = 0
for i = 4, #KEYS do count = count + redis.call('UNLINK', KEYS[i]) end
return count
