-- Forgets consumers that own no messages and have been idle for a long time.
--
-- Atomic: a consumer that takes a message in between keeps its name, and with it the message.
--
-- KEYS  1 stream
-- ARGV  1 group  2 idle: milliseconds of idleness
-- reply number of consumers forgotten
local forgotten = 0
if redis.call('EXISTS', KEYS[1]) == 0 or #redis.call('XINFO', 'GROUPS', KEYS[1]) == 0 then return 0 end
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local of = {}
  for at = 1, #consumer, 2 do of[consumer[at]] = consumer[at + 1] end
  if of.pending == 0 and of.idle > tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], of.name)
    forgotten = forgotten + 1
  end
end
return forgotten
