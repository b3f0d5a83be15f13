-- Turns the sorted set of when a channel's items were read, as layout 14 has it, into the hash of later ones.
--
-- Atomic: every script finds all of them. Repeating it changes nothing.
--
-- KEYS  1 read
-- ARGV  1 how: 'pack', or 'count' to change nothing
-- reply number of items in it, 0 if it is a hash already, or empty
-- include: readings
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return 0 end
if ARGV[1] == 'count' then return redis.call('ZCARD', KEYS[1]) end
local rows = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
redis.call('DEL', KEYS[1])
for at, piece in pairs(pieces_of(rows)) do redis.call('HSET', KEYS[1], at, piece) end
return #rows / 2
