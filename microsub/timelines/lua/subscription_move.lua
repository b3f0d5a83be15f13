-- Moves one subscription from a channel to another, and notes in the user's record that the feed's items are to follow.
--
-- Atomic: exactly one of the two channels follows the feed, and no crash leaves items behind that nobody looks for.
--
-- KEYS  1 channels  2 feeds of the channel it leaves  3 those of the other one  4 user
-- ARGV  1 uid that it leaves  2 uid of the other one  3 feed  4 the note
-- reply -1: no such channel; 1 done; 0 it isn't followed there
if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return -1 end
local value = redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('HGET', KEYS[2], ARGV[3])
if not value then return 0 end
redis.call('HDEL', KEYS[2], ARGV[3])
-- Where the other one follows the feed already, that subscription stays as it is.
redis.call('HSETNX', KEYS[3], ARGV[3], value)
redis.call('HSET', KEYS[4], 'move ' .. ARGV[3] .. ' ' .. ARGV[1], ARGV[4])
redis.call('HDEL', KEYS[4], 'move ' .. ARGV[3] .. ' ' .. ARGV[2])
return 1
