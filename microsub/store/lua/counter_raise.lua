-- Brings a counter of ids up to the largest id that was found, or back to it where a hand set it beyond all reach.
--
-- Atomic: the look and the write, so that a counter that others raise meanwhile never falls.
--
-- KEYS  1 counter
-- ARGV  1 the least that it must stand at  2 what no counter reaches
-- reply 1 where it was set, else 0
local text = redis.call('GET', KEYS[1]) or '0'
local now = (text == '0' or string.find(text, '^[1-9]%d*$')) and #text <= 18 and tonumber(text) or -1 -- what isn't a number can't be counted on
local least, most = tonumber(ARGV[1]), tonumber(ARGV[2])
if now >= least and (now <= most or least >= most) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
