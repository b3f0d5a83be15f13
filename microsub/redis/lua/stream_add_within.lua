-- Appends messages to a stream unless it is full, and then notes that some were left out.
--
-- Atomic: the stream is as full as it was found to be when the messages come in.
--
-- KEYS  1 stream  2 bytes of what waits in it  3 where it is noted that messages were left out
-- ARGV  1, 2 messages and bytes from which on it is full  3 random  4.. per message: bytes, n, n names and values in turn
-- reply 1 where they were added, else 0
-- include: stream_append
local bytes = tonumber(redis.call('GET', KEYS[2]) or '') or 0
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[1]) or bytes >= tonumber(ARGV[2]) then
  redis.call('SET', KEYS[3], ARGV[3])
  return 0
end
stream_append(KEYS[1], KEYS[2], 4)
return 1
