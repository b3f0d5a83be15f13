-- Restores the invariants of one channel for the named ids.
--
-- Atomic per id: what is wrong is judged anew here, so an id that only looked wrong, because the sets were read one after
-- the other, isn't touched. In doubt nothing comes back as unread: what is in `gone` has left, what is read and unread is
-- read, what is shown without a state is read.
--
-- KEYS  1 posts  2 unread  3 read  4 hidden  5 hidden-read  6 gone
-- ARGV  1 now in whole seconds  2.. ids
-- reply number of ids that were changed
-- include: leave
local SWEPT = 9
local sets = { posts = KEYS[1], unread = KEYS[2], read = KEYS[3], hidden = KEYS[4], hidden_read = KEYS[5], gone = KEYS[6] }
local seconds = tonumber(ARGV[1])

local function at(set, id) return redis.call('ZSCORE', sets[set], id) end

local function drop(set, id) return redis.call('ZREM', sets[set], id) end

local function shown(id, score)
  local unread, read = at('unread', id), at('read', id) or at('hidden_read', id)
  local changed = drop('hidden', id) + drop('hidden_read', id)
  if read or not unread then
    changed = changed + drop('unread', id) + redis.call('ZADD', sets.read, read or seconds, id)
  elseif unread ~= score then
    redis.call('ZADD', sets.unread, score, id)
    changed = changed + 1
  end
  return changed
end

local function hidden(id)
  local read = at('read', id)
  if read then redis.call('ZADD', sets.hidden_read, 'NX', read, id) end
  return drop('unread', id) + drop('read', id)
end

local function mend(id)
  local left = at('gone', id)
  if left then
    local reason = reason_of(left)
    local sound = reason >= 1 and reason <= SWEPT and reason == math.floor(reason)
    local standing = at('posts', id) or at('unread', id) or at('read', id) or at('hidden', id) or at('hidden_read', id)
    if sound and not standing then return 0 end
    leave(sets, id, sound and math.floor(tonumber(left)) or seconds, sound and reason or SWEPT)
    return 1
  end
  local score = at('posts', id)
  if score then return shown(id, score) end
  if at('hidden', id) then return hidden(id) end
  return drop('unread', id) + drop('read', id) + drop('hidden_read', id)
end

local count = 0
for i = 2, #ARGV do
  if mend(ARGV[i]) > 0 then count = count + 1 end
end
return count
