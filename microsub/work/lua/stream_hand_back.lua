-- Releases messages that this consumer began and won't finish.
--
-- Atomic: only messages that the consumer still owns are touched; others stay with their new owner.
--
-- KEYS  1 stream
-- ARGV  1 group  2 consumer  3 idle: milliseconds of idleness to claim  4.. messages: per message: id, deliveries to
--       count
-- reply number of messages released
local given = 0
for at = 4, #ARGV, 2 do
  local id = ARGV[at]
  if #redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1, ARGV[2]) == 1 then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'IDLE', ARGV[3], 'RETRYCOUNT', ARGV[at + 1], 'JUSTID')
    given = given + 1
  end
end
return given
