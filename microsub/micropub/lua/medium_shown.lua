-- Notes that a post shows a file.
--
-- Atomic: the look whether the file is there, so that none comes back without its data, and the end of its time unused.
--
-- KEYS  1 file
-- ARGV  1 the post
-- reply none
if redis.call('EXISTS', KEYS[1]) == 0 then return end
redis.call('HSET', KEYS[1], 'post ' .. ARGV[1], '')
redis.call('HDEL', KEYS[1], 'unused')
