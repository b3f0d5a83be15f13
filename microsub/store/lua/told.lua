-- Takes the mark of a change of an item or a feed away, of which all who must know have been told.
--
-- Atomic: the mark of a later change stays.
--
-- KEYS  1 item or feed
-- ARGV  1 mark
-- reply 1 where it was taken away, else 0
if redis.call('HGET', KEYS[1], 'untold') ~= ARGV[1] then return 0 end
return redis.call('HDEL', KEYS[1], 'untold')
