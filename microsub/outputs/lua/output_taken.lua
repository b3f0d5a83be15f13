-- Records the position in the order of arrival up to which a feed has read its source.
--
-- Atomic: the check of the recorded position and the write. Of two concurrent requests, the later position is recorded; a
-- request whose source the settings no longer name records nothing.
--
-- KEYS  1 output
-- ARGV  1 recorded: the recorded source  2 source  3 position
-- reply 1 if it was recorded, else 0
local id, noted, place = unpack(redis.call('HMGET', KEYS[1], 'id', 'taken_from', 'place'))
if not id then return 0 end
if noted == ARGV[2] then
  if tonumber(place) >= tonumber(ARGV[3]) then return 0 end
elseif (noted or '') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'taken_from', ARGV[2], 'place', ARGV[3])
return 1
