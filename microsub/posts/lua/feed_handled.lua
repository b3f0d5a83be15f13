-- Takes posts out of a feed's pending set, for all who must know have been told, and notes whose posts they were.
--
-- Atomic: if the message is noted, its posts have been handed on.
--
-- KEYS  1 feed  2 pending
-- ARGV  1 field for the message  2 message, or '' for none  3.. ids
-- reply nothing
for at = 3, #ARGV, 1000 do redis.call('SREM', KEYS[2], unpack(ARGV, at, math.min(at + 999, #ARGV))) end
if ARGV[2] ~= '' and redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
