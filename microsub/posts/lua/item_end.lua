-- Marks an item without references, so that the next sweep may delete it; deletes it; or retires it: no timeline adds
-- an item without a score.
--
-- Atomic: an item whose mark was removed is left alone. A process that adds an item to a timeline removes its mark
-- first, and finds the item either existing or deleted. The time of the first marking is kept, unless it is in the
-- future: a clock was wrong, and the item would never be deleted.
--
-- KEYS  1 item
-- ARGV  1 how: 'condemn', 'delete' or 'retire'  2 mark?: now ('condemn'), or the mark that it must have, '' for one or
--       none
-- reply 0 if it is unchanged, otherwise 1
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
local mark = redis.call('HGET', KEYS[1], 'condemned')
if ARGV[1] == 'condemn' then
  if mark and tonumber(mark) <= tonumber(ARGV[2]) then return 0 end
  redis.call('HSET', KEYS[1], 'condemned', ARGV[2])
  return 1
end
if ARGV[2] ~= '' and mark ~= ARGV[2] then return 0 end
if ARGV[1] == 'delete' then return redis.call('DEL', KEYS[1]) end
redis.call('HDEL', KEYS[1], 'score')
return 1
