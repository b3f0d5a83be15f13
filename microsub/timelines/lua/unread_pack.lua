-- Turns the sorted set of a channel's unread items, as layout 12 has it, into the set of later ones.
--
-- Atomic: every script finds all unread items. Repeating it changes nothing.
--
-- KEYS  1 unread
-- ARGV  1 how: 'pack', or 'count' to change nothing
-- reply number of ids in it, 0 if it is a set already, or empty
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return 0 end
if ARGV[1] == 'count' then return redis.call('ZCARD', KEYS[1]) end
local ids = redis.call('ZRANGE', KEYS[1], 0, -1)
redis.call('DEL', KEYS[1])
for first = 1, #ids, 1000 do
  redis.call('SADD', KEYS[1], unpack(ids, first, math.min(#ids, first + 999)))
end
return #ids
