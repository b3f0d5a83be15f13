-- Adds or removes one follower of a feed.
--
-- Atomic: the time to live of the feed's keys goes with the first follower and comes with the last, so that no feed
-- with followers, nor one that is kept anyway, can expire, whichever way two of these calls fall; and a changed list has
-- another edition, so that a process that caches the list sees by its edition that it is old.
--
-- KEYS  1 subscribers  2 edition  3.. the feed's other keys
-- ARGV  1 user/uid  2 'follow' or 'unfollow'  3 time to live in seconds  4 the next edition
-- reply the number of followers after it
local changed = redis.call(ARGV[2] == 'follow' and 'SADD' or 'SREM', KEYS[1], ARGV[1])
if changed == 1 then redis.call('SET', KEYS[2], ARGV[4]) end
local followers = redis.call('SCARD', KEYS[1])
for _, key in ipairs(KEYS) do
  if followers > 0 or redis.call('HEXISTS', KEYS[3], 'kept') == 1 then
    redis.call('PERSIST', key)
  elseif redis.call('TTL', key) == -1 then
    redis.call('EXPIRE', key, ARGV[3])
  end
end
return followers
