-- Appends messages to a stream.
--
-- Atomic: all messages or none, and their bytes with them, so that the backlog is never counted wrongly.
--
-- KEYS  1 stream  2 bytes of what waits in it
-- ARGV  per message: bytes, n, n names and values in turn
-- reply ids
local ids, total, at = {}, 0, 1
while at <= #ARGV do
  total = total + tonumber(ARGV[at])
  local n = tonumber(ARGV[at + 1])
  ids[#ids + 1] = redis.call('XADD', KEYS[1], '*', unpack(ARGV, at + 2, at + 1 + n))
  at = at + 2 + n
end
if type(redis.pcall('INCRBY', KEYS[2], total)) == 'table' then
  redis.call('SET', KEYS[2], total) -- a hand has spoilt it; the next empty stream makes it right
end
return ids
