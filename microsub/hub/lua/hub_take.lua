-- Claims work of the hub that is due, or whose worker sent no heartbeat.
--
-- Atomic: the look and the claim, so only one worker has each piece of work.
--
-- KEYS  1 due  2 claims
-- ARGV  1 now  2 end of the claim  3 its token  4 maximum number of members  5 time beyond which nothing is planned:
--       later entries were written while a clock was ahead
-- reply the members, the longest due first
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[4])
if #found == 0 then found = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[5], '+inf', 'LIMIT', 0, ARGV[4]) end
for _, member in ipairs(found) do
  redis.call('ZADD', KEYS[1], ARGV[2], member)
  redis.call('HSET', KEYS[2], member, ARGV[3])
end
return found
