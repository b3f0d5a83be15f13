-- Writes or deletes one subscription of a channel.
--
-- Atomic: the channel's existence, the count of all feeds, and the subscription; and a change is
-- written only over the value that it was made from, so that of two changes at the same time neither is lost. What is
-- followed again isn't on its way to another channel any more. Where another feed replaces a feed, it is remembered by
-- which id the app knows it.
--
-- KEYS  1 channels  2 feeds  3 user  4 former feeds
-- ARGV  1 uid  2 feed  3 'follow', 'unfollow' or 'change'  4 value  5 old value ('change')
--       6 the feed that this one replaces, or '' ('change')  7 how many feeds all channels together may
--       follow, where that is limited  8 pattern: feeds of a channel (with 7)
--       7 lifetime of the former feeds in seconds  8 how many there may be ('change')
-- reply -1: no such channel; 1 done; 0 nothing to do ('follow': is followed; 'unfollow': isn't; 'change': other value);
--       2 + count: that many feeds are followed, and no more may be
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return -1 end
local feed, action, value = ARGV[2], ARGV[3], ARGV[4]
if action == 'follow' then
  if ARGV[7] and redis.call('HEXISTS', KEYS[2], feed) == 0 then
    local count = 0
    for _, uid in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
      count = count + redis.call('HLEN', (string.gsub(ARGV[8], '%*', uid)))
    end
    if count >= tonumber(ARGV[7]) then return 2 + count end
  end
  if redis.call('HSETNX', KEYS[2], feed, value) == 0 then return 0 end
  redis.call('HDEL', KEYS[3], 'move ' .. feed .. ' ' .. ARGV[1])
  return 1
end
if action == 'unfollow' then return redis.call('HDEL', KEYS[2], feed) end
local from = ARGV[6] == '' and feed or ARGV[6]
if redis.call('HGET', KEYS[2], from) ~= ARGV[5] then return 0 end
if from == feed then
  redis.call('HSET', KEYS[2], feed, value)
else
  -- The new feed may be followed already: then that subscription stays as it is.
  redis.call('HSETNX', KEYS[2], feed, value)
  redis.call('HDEL', KEYS[2], from)
  if redis.call('HLEN', KEYS[4]) >= tonumber(ARGV[8]) then redis.call('DEL', KEYS[4]) end
  redis.call('HSET', KEYS[4], from, feed)
  redis.call('EXPIRE', KEYS[4], ARGV[7])
end
return 1
