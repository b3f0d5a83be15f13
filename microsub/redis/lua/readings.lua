-- When the items of a channel were read, for redis/readings.py.
--
-- Atomic: the pieces are of one moment, in either form. Writes nothing.
--
-- KEYS  1 read
-- ARGV  1.. pieces: the numbers of those that are wanted, all without any
-- reply the pieces, as parts/readings.lua describes them; the other ones may be among them
-- include: readings
local found = #ARGV > 0 and redis.pcall('HMGET', KEYS[1], unpack(ARGV)) or redis.pcall('HVALS', KEYS[1])
if not found.err then return found end
local listed = {}
for _, piece in pairs(pieces_of(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'))) do listed[#listed + 1] = piece end
return listed
