-- Writes, moves or deletes one subscription of a channel.
--
-- Atomic: the channel's existence, the count of all feeds, and the subscription with the score from which on its items
-- are unread (timeline_add.lua). A change is written only over the value that it was made from, so that neither of two
-- concurrent changes is lost. During a move exactly one of the two channels follows the feed; the user's record notes
-- that the feed's items must still move, until the former channel follows the feed again. If another feed replaces a
-- feed, the id that the app knows is remembered. The user's number `names` grows when a name of the user's own or their
-- settings for a feed may have changed: it shows that remembered ones are old.
--
-- KEYS  1 channels  2 channel  3 channel_feeds: its feeds  4 user  5.. other: former feeds ('change'), or the channel
--       that takes the feed and its feeds ('move')
-- ARGV  1 uid  2 feed  3 action: 'follow', 'unfollow', 'unfinished' (an unfollow), 'move' or 'change'  4.. rest
--       'follow': value, limit of feeds that all channels together follow, 0 for no limit, pattern: feeds of a
--       channel, the score from which on its items are unread, or ''; 'move': uid of the other channel, the note;
--       'unfinished': the note; 'change': value, old value, the feed that replaces this one, or the feed itself,
--       lifetime of the former feeds in seconds, how many are kept
-- reply -1: no such channel ('move': the other one); 1 done; 0 nothing to do ('follow': is followed; 'unfollow' and
--       'move': isn't; 'unfinished': is followed again; 'change': other value); 2 + count: that many feeds are followed: the limit is reached
local uid, feed, action = ARGV[1], ARGV[2], ARGV[3]
local function from(id) return 'unread_from ' .. id end

local function begun(value) return cjson.decode(value).followed_at end

-- Notes that names or settings may have changed, if one of these subscriptions has any.
local function note_names(...)
  for _, value in pairs({ ... }) do
    local own = value and cjson.decode(value)
    if own and (own.name or own.settings) then
      redis.call('HINCRBY', KEYS[4], 'names', 1)
      return
    end
  end
end

-- Gives the subscription to another feed or channel; if that one is followed already, the older subscription stays.
local function replace(channel, feeds, other, value)
  local unread_from = redis.call('HGET', KEYS[2], from(feed))
  redis.call('HDEL', KEYS[3], feed)
  redis.call('HDEL', KEYS[2], from(feed))
  local there = redis.call('HGET', feeds, other)
  if not there or begun(value) < begun(there) then redis.call('HSET', feeds, other, value) end
  if not there and unread_from then redis.call('HSET', channel, from(other), unread_from) end
end

local there = redis.call('ZSCORE', KEYS[1], uid)
if action == 'move' then
  if not redis.call('ZSCORE', KEYS[1], ARGV[4]) then return -1 end
  local value = there and redis.call('HGET', KEYS[3], feed)
  if not value then return 0 end
  replace(KEYS[5], KEYS[6], feed, value)
  note_names(value)
  redis.call('HSET', KEYS[4], 'move ' .. feed .. ' ' .. uid, ARGV[5])
  redis.call('HDEL', KEYS[4], 'move ' .. feed .. ' ' .. ARGV[4])
  return 1
end
if not there then return -1 end
if action == 'follow' then
  local most = tonumber(ARGV[5])
  if most > 0 and redis.call('HEXISTS', KEYS[3], feed) == 0 then
    local count = 0
    for _, one in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
      count = count + redis.call('HLEN', (string.gsub(ARGV[6], '%*', one)))
    end
    if count >= most then return 2 + count end
  end
  if redis.call('HSETNX', KEYS[3], feed, ARGV[4]) == 0 then return 0 end
  redis.call('HDEL', KEYS[2], from(feed))
  if ARGV[7] ~= '' then redis.call('HSET', KEYS[2], from(feed), ARGV[7]) end
  redis.call('HDEL', KEYS[4], 'move ' .. feed .. ' ' .. uid)
  note_names(ARGV[4])
  return 1
end
if action == 'unfollow' then
  note_names(redis.call('HGET', KEYS[3], feed))
  redis.call('HDEL', KEYS[2], from(feed))
  return redis.call('HDEL', KEYS[3], feed)
end
if action == 'unfinished' then
  if redis.call('HEXISTS', KEYS[3], feed) == 1 then return 0 end
  redis.call('HSET', KEYS[4], 'move ' .. feed .. ' ' .. uid, ARGV[4])
  return 1
end
if redis.call('HGET', KEYS[3], feed) ~= ARGV[5] then return 0 end
if ARGV[6] == feed then
  redis.call('HSET', KEYS[3], feed, ARGV[4])
else
  replace(KEYS[2], KEYS[3], ARGV[6], ARGV[4])
  if redis.call('HLEN', KEYS[5]) >= tonumber(ARGV[8]) then redis.call('DEL', KEYS[5]) end
  redis.call('HSET', KEYS[5], feed, ARGV[6])
  redis.call('HDEL', KEYS[5], ARGV[6])  -- it is followed again
  redis.call('EXPIRE', KEYS[5], ARGV[7])
end
note_names(ARGV[4], ARGV[5])
return 1
