-- Lets a guid stand for an item that is gone, so that its post doesn't come back.
--
-- Atomic: only while it stands for what was found wrong.
--
-- KEYS  1 guids
-- ARGV  1 guid  2 what it stands for wrongly
-- reply 1 where it was changed, else 0
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
-- Ids begin at 1.
redis.call('HSET', KEYS[1], ARGV[1], '0')
return 1
