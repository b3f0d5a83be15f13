-- Deletes an item, or takes it out of circulation: without a score nobody takes it into a timeline any more.
--
-- Atomic: an item whose mark somebody has taken away stays as it is. Who adds an item to a timeline removes its mark
-- first, and finds it alive or gone.
--
-- KEYS  1 item
-- ARGV  1 'delete' or 'retire'  2 the mark that it must have, or '' for whether it has one or not
-- reply 0 where it stays, else 1
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[1], 'condemned') ~= ARGV[2] then return 0 end
if ARGV[1] == 'delete' then return redis.call('DEL', KEYS[1]) end
redis.call('HDEL', KEYS[1], 'score')
return 1
