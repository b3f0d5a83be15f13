-- Scripts that walk several channels are given the six keys of a channel's items as patterns in ARGV[1..6]
-- (posts, unread, read, hidden, hidden-read, gone), in which `*` stands for the uid: all lie in the slot of KEYS[1],
-- the sorted set of the user's channels.
local function keyed(pattern, uid)
  return (string.gsub(pattern, '%*', uid))
end

local function sets_of(uid)
  return {
    posts = keyed(ARGV[1], uid),
    unread = keyed(ARGV[2], uid),
    read = keyed(ARGV[3], uid),
    hidden = keyed(ARGV[4], uid),
    hidden_read = keyed(ARGV[5], uid),
    gone = keyed(ARGV[6], uid),
  }
end

-- channels_named(uid): that channel, or all of them for `global`; nil when there is none. Removed channels count only
-- where the caller gives KEYS[2], the sorted set of these.
local function channels_named(uid)
  local uids
  if uid == 'global' then
    uids = redis.call('ZRANGE', KEYS[1], 0, -1)
    if KEYS[2] then
      for _, removed in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do uids[#uids + 1] = removed end
    end
    if #uids == 0 then return nil end
  elseif redis.call('ZSCORE', KEYS[1], uid) or (KEYS[2] and redis.call('ZSCORE', KEYS[2], uid)) then
    uids = { uid }
  else
    return nil
  end
  local all = {}
  for i, name in ipairs(uids) do all[i] = sets_of(name) end
  return all
end
