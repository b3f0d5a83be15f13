-- Takes an item out of circulation: without a score nobody takes it into a timeline any more.
--
-- Atomic: one whose mark somebody has taken away stays as it is.
--
-- KEYS  1 item
-- ARGV  1 the mark that the item must have, or '' for whether it has one or not
-- reply 0 where it stays, else 1
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
if ARGV[1] ~= '' and redis.call('HGET', KEYS[1], 'condemned') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'score')
return 1
