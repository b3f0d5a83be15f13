-- Counts a check of an unknown token with a user's provider, if the limit allows one more.
--
-- There are three shares: for networks with a recent valid token of the user, for the first checks from any network, and
-- for all further checks. If one is used up, the others aren't affected.
--
-- Atomic: the check of the counts and the count, so that concurrent checks can't exceed the limit.
--
-- KEYS  1 foreign_checks  2 foreign_networks
-- ARGV  1 network: its digest  2 site: digest of the larger network, or the same  3 since: when a valid token counts
--       4 known: share of known networks  5 of_known: maximum of one of them  6 first: share of first checks
--       7 of_first: maximum of one larger network  8 further: share of further checks  9 of_further: maximum of one
--       network  10 period: in seconds
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
