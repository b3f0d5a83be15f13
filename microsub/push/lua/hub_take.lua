-- Claims work of the hub that is due, and what a worker that gave no sign of life had in hand.
--
-- Atomic: the look and the claim, so that one worker at a time has each piece of work.
--
-- KEYS  1 due  2 claims
-- ARGV  1 now  2 until when the claim holds  3 its token  4 most members  5 time beyond which nothing is planned: what
--       stands there was planned while a clock was ahead
-- reply the members, those first that are due longest
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[4])
if #found == 0 then found = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[5], '+inf', 'LIMIT', 0, ARGV[4]) end
for _, member in ipairs(found) do
  redis.call('ZADD', KEYS[1], ARGV[2], member)
  redis.call('HSET', KEYS[2], member, ARGV[3])
end
return found
