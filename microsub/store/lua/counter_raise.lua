-- Brings a counter of ids up to the largest id that was found.
--
-- Atomic: the look and the write, so that a counter that others raise meanwhile never falls.
--
-- KEYS  1 counter
-- ARGV  1 the least that it must stand at
-- reply 1 where it was raised, else 0
local text = redis.call('GET', KEYS[1]) or '0'
local now = string.find(text, '^%d+$') and tonumber(text) or -1 -- what isn't a number can't be counted on
if now >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
