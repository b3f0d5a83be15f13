-- Scripts that visit several channels get the six keys of a channel's items as patterns in ARGV[1..6]
-- (posts, unread, read, hidden, hidden-read, gone), in which `*` stands for the uid: all are in the slot of KEYS[1],
-- the sorted set of the user's channels.
local PARTS = { posts = 1, unread = 2, read = 3, hidden = 4, hidden_read = 5, gone = 6 }
local before, behind = {}, {}

-- keyed(part, uid): one key. Each pattern is split at its first use, since a user can have thousands of channels and
-- most scripts need few of the six keys.
local function keyed(part, uid)
  if not before[part] then before[part], behind[part] = string.match(ARGV[PARTS[part]], '^(.-)%*(.*)$') end
  return before[part] .. uid .. behind[part]
end

-- sets_of(uid): the keys of one channel by part, each built at its first use.
local on_demand = {
  __index = function(sets, part)
    sets[part] = keyed(part, sets.uid)
    return sets[part]
  end,
}
local function sets_of(uid) return setmetatable({ uid = uid }, on_demand) end

-- channels_named(uid): that channel, or for `global` all channels with items; nil for an unknown channel. Removed
-- channels count only if the caller gives the key of their sorted set.
local function channels_named(uid, removed_channels)
  local uids
  if uid == 'global' then
    uids = redis.call('ZRANGE', KEYS[1], 0, -1)
    if removed_channels then
      for _, removed in ipairs(redis.call('ZRANGE', removed_channels, 0, -1)) do uids[#uids + 1] = removed end
    end
    if #uids == 0 then return nil end
  elseif redis.call('ZSCORE', KEYS[1], uid) or (removed_channels and redis.call('ZSCORE', removed_channels, uid)) then
    uids = { uid }
  else
    return nil
  end
  local all = {}
  for _, name in ipairs(uids) do
    if uid ~= 'global' or redis.call('EXISTS', keyed('posts', name), keyed('unread', name), keyed('hidden', name)) > 0 then
      all[#all + 1] = sets_of(name)
    end
  end
  return all
end

-- share(all, count): how many of `count` ids one call handles in these channels, so that it blocks Redis for only a few
-- milliseconds, however many channels there are: each id can be in each channel, and removing it takes six writes.
local function share(all, count)
  return math.max(1, math.min(count, math.floor(1000 / math.max(1, #all))))
end
