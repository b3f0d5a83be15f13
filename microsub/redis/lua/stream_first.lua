-- Says which message of a stream is the first in a range, without its content, which may be megabytes.
--
-- Atomic: a single command reads. Writes nothing.
--
-- KEYS  1 stream
-- ARGV  1 from  2 to: ids, or - and +; from + to - for the last one
-- reply id, or nothing
local found
if ARGV[1] == '+' then
  found = redis.call('XREVRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', 1)
else
  found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', 1)
end
return found[1] and found[1][1] or false
