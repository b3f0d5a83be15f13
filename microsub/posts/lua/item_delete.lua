-- Deletes an item that was marked, unless somebody has taken the mark away.
--
-- Atomic: a process that adds the item to a timeline removes its mark first, and finds the item alive or gone.
--
-- KEYS  1 item
-- ARGV  1 the mark, as the sweep saw it
-- reply 1 where the item is gone now, else 0
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
if redis.call('HGET', KEYS[1], 'condemned') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
