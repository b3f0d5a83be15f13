-- Counts a question to a user's provider about a token that nobody knows, where there is room for one more.
--
-- There are three shares: of networks from which good tokens of the user came lately, of the first questions from any
-- network, and of whatever further ones there are. One that is used up leaves the others.
--
-- Atomic: the look at the counts and the count, so that many at once don't slip through.
--
-- KEYS  1 checks  2 networks
-- ARGV  1 digest of the network  2 digest of what it lies in, or the same  3 time after which a good token counts
--       4 share of known networks  5 most of one of them  6 share of first questions  7 most from one place
--       8 share of further questions  9 most from one network  10 seconds of the period
-- reply 0: counted; else seconds until the next period
local function count(field) return tonumber(redis.call('HGET', KEYS[1], field) or 0) end
local function take(share, from)
  redis.call('HINCRBY', KEYS[1], share, 1)
  redis.call('HINCRBY', KEYS[1], from, 1)
  if redis.call('TTL', KEYS[1]) < 0 then redis.call('EXPIRE', KEYS[1], ARGV[10]) end
  return 0
end
local function free(share, most, from, most_from)
  return count(share) < tonumber(most) and count(from) < tonumber(most_from)
end
local seen = redis.call('ZSCORE', KEYS[2], ARGV[1])
local known, first, rest = 'known ' .. ARGV[1], 'first ' .. ARGV[2], 'rest ' .. ARGV[1]
if seen and tonumber(seen) > tonumber(ARGV[3]) and free('known', ARGV[4], known, ARGV[5]) then
  return take('known', known)
end
if free('first', ARGV[6], first, ARGV[7]) then return take('first', first) end
if free('rest', ARGV[8], rest, ARGV[9]) then return take('rest', rest) end
return math.max(1, redis.call('TTL', KEYS[1]))
