-- Moves ids from the sorted set of those that had left a channel, as layout 8 has it, to the set of later ones.
--
-- Atomic: scripts ask both, so an id is always in one of them. Repeating it changes nothing.
--
-- KEYS  1 gone  2 gone_before
-- ARGV  1 most: how many to move
-- reply number of ids that moved, 0 if none is left
local rows = redis.call('ZRANGE', KEYS[2], 0, ARGV[1] - 1, 'WITHSCORES')
if #rows == 0 then return 0 end
local numbers, ids = {}, {}
for i = 1, #rows, 2 do
  local at = tonumber(rows[i + 1])
  ids[#ids + 1] = rows[i]
  numbers[#ids] = 16 * rows[i] + (at - math.floor(at)) * 16
end
redis.call('SADD', KEYS[1], unpack(numbers))
redis.call('ZREM', KEYS[2], unpack(ids))
return #ids
