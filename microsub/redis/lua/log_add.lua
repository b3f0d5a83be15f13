-- Appends entries to a stream, which is kept short.
--
-- Atomic: all entries or none, in a row.
--
-- KEYS  1 stream
-- ARGV  1 kept: how many are kept at least  2.. entries: per entry: n, n names and values in turn
-- reply nothing
local at = 2
while at <= #ARGV do
  local n = tonumber(ARGV[at])
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, at + 1, at + n))
  at = at + 1 + n
end
