-- Notes up to which place a feed has taken in what came to its source.
--
-- Atomic: the look at what is noted, and the note. Of two requests at once the one that came further is noted; who read what
-- is no longer the source's, because the settings were changed meanwhile, notes nothing.
--
-- KEYS  1 output
-- ARGV  1 the source that was noted  2 the source  3 the place
-- reply 1 where it was noted, else 0
local id, noted, place = unpack(redis.call('HMGET', KEYS[1], 'id', 'taken_from', 'place'))
if not id then return 0 end
if noted == ARGV[2] then
  if tonumber(place) >= tonumber(ARGV[3]) then return 0 end
elseif (noted or '') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'taken_from', ARGV[2], 'place', ARGV[3])
return 1
