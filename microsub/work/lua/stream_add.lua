-- Appends messages to a stream. With limits, a full stream accepts none, and notes that messages were left out.
--
-- Atomic: all messages or none, with their bytes, so that the backlog is always counted correctly; and the check that
-- the stream isn't full.
--
-- KEYS  1 stream  2 stream_bytes: bytes of its waiting messages  3 left_out?: note that messages were left out
-- ARGV  1, 2 bounds: messages and bytes at which it is full, 0 for never  3 mark?: random  4.. messages: per message:
--       bytes, n, n names and values in turn
-- reply ids, or 0 if it is full
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
