-- Counts a question to a user's provider about a token that nobody knows, where there is room for one more.
--
-- Atomic: the look at the counts and the count, so that many at once don't slip through.
--
-- KEYS  1 checks
-- ARGV  1 where the token came from  2 most from all places  3 most from one  4 seconds of the period
-- reply 0: counted; else seconds until the next period
local from = 'from ' .. ARGV[1]
local counts = redis.call('HMGET', KEYS[1], 'all', from)
if tonumber(counts[1] or 0) >= tonumber(ARGV[2]) or tonumber(counts[2] or 0) >= tonumber(ARGV[3]) then
  return math.max(1, redis.call('TTL', KEYS[1]))
end
redis.call('HINCRBY', KEYS[1], 'all', 1)
redis.call('HINCRBY', KEYS[1], from, 1)
if not counts[1] then redis.call('EXPIRE', KEYS[1], ARGV[4]) end
return 0
