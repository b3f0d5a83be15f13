-- Removes messages that have had all their effects from a stream.
--
-- Atomic: an acknowledged message is deleted, and its bytes are subtracted once, however often this runs.
--
-- KEYS  1 stream  2 stream_bytes: bytes of its waiting messages
-- ARGV  1 group  2.. messages: per message: id, bytes
-- reply number of messages removed now
local left, freed = 0, 0
for at = 2, #ARGV, 2 do
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[at])
  if redis.call('XDEL', KEYS[1], ARGV[at]) == 1 then
    left = left + 1
    freed = freed + tonumber(ARGV[at + 1])
  end
end
if freed > 0 then redis.call('DECRBY', KEYS[2], freed) end
-- An empty stream has no backlog; this clears a count that a restored backup left.
if redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[2]) end
return left
