-- Adds or removes one follower of a feed.
--
-- Atomic: the time to live of the feed's keys goes with the first follower and comes with the last, so that no feed
-- with followers can expire, whichever way two of these calls fall.
--
-- KEYS  1 subscribers  2.. the feed's other keys
-- ARGV  1 user/uid  2 'follow' or 'unfollow'  3 time to live in seconds
-- reply the number of followers after it
if ARGV[2] == 'follow' then
  redis.call('SADD', KEYS[1], ARGV[1])
else
  redis.call('SREM', KEYS[1], ARGV[1])
end
local followers = redis.call('SCARD', KEYS[1])
for _, key in ipairs(KEYS) do
  if followers > 0 then
    redis.call('PERSIST', key)
  elseif redis.call('TTL', key) == -1 then
    redis.call('EXPIRE', key, ARGV[3])
  end
end
return followers
