-- Changes one channel: its fields, or whether it exists. A removed channel can be restored with everything in it.
--
-- Atomic: the check and the write, so that a change during a deletion leaves no stray key, and no add or mark finds
-- half a channel. A channel is in at most one of the two lists, and the field `removed` (which the page reads) agrees.
-- The user's `shape` grows with every change of a name or setting, and with a deletion, since another channel can get
-- that uid: it shows that remembered names and settings are old. `names` (subscription_write.lua) grows when a channel is
-- restored, with its follows. The count of rules is forgotten whenever a channel is
-- added or removed (rule_write.lua).
--
-- KEYS  1 channels  2 removed_channels  3 user  4 arrivals  5 arrivals_more  6 live_events  7 channel  8 channel_feeds:
--       its feeds  9 posts  10.. others: all other keys of the channel ('delete…')
-- ARGV  1 uid  2 action: 'set', 'remove', 'restore', 'delete' (removed or not), or 'delete removed' (only if it is
--       removed, so that a channel restored a moment ago survives)  3.. rest: now ('remove'); or pairs of field and
--       value ('set'), an empty value deletes the field; or ('restore') limits of the user's channels, feeds and rules,
--       0 for no limit, and patterns: feeds, mutes, blocks
-- reply ids of the feeds that it follows ('set': none), or 0: no such channel there, or a text: the kind over its
--       limit, the number with the restored channel, and the limit
-- include: arrivals
-- include: events
-- include: fields
local uid, action = ARGV[1], ARGV[2]
local position = redis.call('ZSCORE', KEYS[1], uid)
if action == 'set' then
  if not position then return 0 end
  for i = 3, #ARGV, 2 do set_field(KEYS[7], ARGV[i], ARGV[i + 1] ~= '' and ARGV[i + 1]) end
  redis.call('HINCRBY', KEYS[3], 'shape', 1)
  if ARGV[#ARGV - 1] == 'changed' then note_channel(KEYS[6], 'update channel', uid) end
  return {}
end
if action == 'remove' then
  if position then
    redis.call('ZREM', KEYS[1], uid)
    redis.call('HDEL', KEYS[3], 'rule_count')
    redis.call('ZADD', KEYS[2], ARGV[3], uid)
    redis.call('HSET', KEYS[7], 'removed', ARGV[3], 'position', position)
    note_channel(KEYS[6], 'delete channel', uid)
  elseif not redis.call('ZSCORE', KEYS[2], uid) then
    return 0
  end
  return redis.call('HKEYS', KEYS[8])
end
if action == 'restore' and redis.call('ZSCORE', KEYS[2], uid) then
  local function size(pattern, one) return redis.call('HLEN', (string.gsub(pattern, '%*', one))) end
  local function sizes(one)
    return {
      channels = (one == 'notifications' or one == 'saved' or one == 'global') and 0 or 1,
      feeds = size(ARGV[6], one),
      ['mutes and blocks'] = size(ARGV[7], one) + size(ARGV[8], one),
    }
  end
  local own, others = sizes(uid), redis.call('ZRANGE', KEYS[1], 0, -1)
  others[#others + 1] = 'global'
  for place, what in ipairs({ 'channels', 'feeds', 'mutes and blocks' }) do
    local most, count = tonumber(ARGV[2 + place]), own[what]
    if most > 0 and count > 0 then
      for _, one in ipairs(others) do count = count + sizes(one)[what] end
      if count > most then return what .. ' ' .. count .. ' ' .. most end
    end
  end
end
local known = redis.call('ZREM', KEYS[2], uid)
if action == 'delete' then known = known + redis.call('ZREM', KEYS[1], uid) end
if known == 0 then return 0 end
redis.call('HDEL', KEYS[3], 'rule_count')
local feeds = redis.call('HKEYS', KEYS[8])
if action == 'restore' then
  redis.call('ZADD', KEYS[1], redis.call('HGET', KEYS[7], 'position'), uid)
  redis.call('HDEL', KEYS[7], 'removed', 'position')
  redis.call('HINCRBY', KEYS[3], 'names', 1)
  note_channel(KEYS[6], 'new channel', uid)
else
  redis.call('HINCRBY', KEYS[3], 'shape', 1)
  for _, id in ipairs(redis.call('ZRANGE', KEYS[9], 0, -1)) do departs(id) end
  note_arrivals(KEYS[4], KEYS[5], 0)
  redis.call('UNLINK', unpack(KEYS, 7))
  if position then note_channel(KEYS[6], 'delete channel', uid) end
end
return feeds
