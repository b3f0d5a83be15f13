-- Adds or removes one follower of a feed, or keeps a feed without followers, or ends that.
--
-- Atomic: the first follower removes the time to live of the feed's keys and the last one sets it, so that no feed with
-- followers, and no kept feed, can expire, in whatever order two of these calls run. A changed list gets a new edition,
-- so that processes notice that their cached list is old. How the feed is asked for, if its only follower chose it, ends
-- with the first follow of another user (`choosing`).
--
-- KEYS  1 feed_subscribers  2 feed_edition  3 feed  4 feed_websub: what was agreed with its hub  5 feed_items  6 feed_guids
--       7 feed_outbox  8 feed_tombstones
-- ARGV  1 action: 'follow', 'unfollow', 'keep' or 'release'  2 life: time to live in seconds  3 follower?: user/uid
--       4 new_edition?: the next edition
-- reply 1 if anything changed, 2 if the last follower left and the hub must be notified, otherwise 0; a feed that
--       doesn't exist is neither kept nor released
local changed
if ARGV[1] == 'follow' or ARGV[1] == 'unfollow' then
  changed = redis.call(ARGV[1] == 'follow' and 'SADD' or 'SREM', KEYS[1], ARGV[3])
  if changed == 1 then redis.call('SET', KEYS[2], ARGV[4]) end
  local chooser = ARGV[1] == 'follow' and redis.call('HGET', KEYS[3], 'chosen_by')
  if chooser and chooser ~= string.match(ARGV[3], '^(.*)/') then
    redis.call('HDEL', KEYS[3], 'user_agent', 'chosen_interval', 'chosen_by')
  end
elseif redis.call('EXISTS', KEYS[3]) == 0 then
  return 0
elseif ARGV[1] == 'keep' then
  changed = redis.call('HSETNX', KEYS[3], 'kept', '1')
else
  changed = redis.call('HDEL', KEYS[3], 'kept')
end
local stays = redis.call('EXISTS', KEYS[1]) == 1 or redis.call('HEXISTS', KEYS[3], 'kept') == 1
for _, key in ipairs(KEYS) do
  if stays then
    redis.call('PERSIST', key)
  elseif redis.call('TTL', key) == -1 then
    redis.call('EXPIRE', key, ARGV[2])
  end
end
if ARGV[1] == 'unfollow' and changed == 1 and redis.call('EXISTS', KEYS[1]) == 0 then
  changed = changed + redis.call('EXISTS', KEYS[4])
end
return changed
