-- Appends messages to a stream, on demand unless it is full, and then notes that some were left out.
--
-- Atomic: all messages or none, and their bytes with them, so that the backlog is never counted wrongly; and the stream is
-- as full as it was found to be when they come in.
--
-- KEYS  1 stream  2 bytes of what waits in it  3 where it is noted that messages were left out, or nothing
-- ARGV  1, 2 messages and bytes from which on it is full, 0 for never  3 random  4.. per message: bytes, n, n names and values in turn
-- reply ids, or 0 where it is full
local most = tonumber(ARGV[1])
if most > 0 then
  local bytes = tonumber(redis.call('GET', KEYS[2]) or 0)
  if redis.call('XLEN', KEYS[1]) >= most or bytes >= tonumber(ARGV[2]) then
    if KEYS[3] then redis.call('SET', KEYS[3], ARGV[3]) end
    return 0
  end
end
local ids, at = {}, 4
while at <= #ARGV do
  local n = tonumber(ARGV[at + 1])
  ids[#ids + 1] = redis.call('XADD', KEYS[1], '*', unpack(ARGV, at + 2, at + 1 + n))
  redis.call('INCRBY', KEYS[2], ARGV[at])
  at = at + 2 + n
end
return ids
