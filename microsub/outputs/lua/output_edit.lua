-- Publishes items in an output feed, or removes them.
--
-- Atomic: an item's sets, impressions and edition change together. A reply that is being sent shows the edition that it
-- read, so its impression never counts for a later publication.
--
-- KEYS  1 output  2 output_published  3 output_imported  4 output_edited  5 output_impressions  6 output_editions
--       7 output_held  8 output_offered
-- ARGV  1 now  2 action: 'add' (items that aren't in it), 'publish' (items in any state, with a new edition), 'offer'
--       (a channel's items that were never in it), 'edit' (items in it whose post was edited), 'note' (items in it
--       whose post has changed, but isn't published again), 'remove', 'drop' (items whose posts are gone)  3 most:
--       maximum number of items; the oldest offered items make room for items that are added by hand  4 removed:
--       maximum number of removed items to remember  5 archive: items that leave together if there are too many
--       6.. items: per item: id, the post's version (two words), time of publication
-- reply {'missing'} no such feed; {'full', count} nothing was done; else {'', how many changed}
local now, action, most = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
if redis.call('HEXISTS', KEYS[1], 'id') == 0 then return { 'missing' } end

local function is_in(item) return redis.call('ZSCORE', KEYS[2], item) or redis.call('ZSCORE', KEYS[3], item) end
local function wanted(item, hash)
  if action == 'add' then return not is_in(item) end
  if action == 'offer' then return not redis.call('ZSCORE', KEYS[4], item) end
  if action == 'edit' or action == 'note' then
    local edition = redis.call('HGET', KEYS[6], item)
    return is_in(item) and edition and string.match(edition, '^%d+ (%S* ?%S*)') ~= hash
  end
  if action == 'drop' then return redis.call('ZSCORE', KEYS[4], item) end
  return action == 'publish' or is_in(item)
end
local function leave(item)
  redis.call('ZREM', KEYS[2], item)
  redis.call('ZREM', KEYS[3], item)
  redis.call('HDEL', KEYS[6], item)
  redis.call('SREM', KEYS[8], item)
end
local function size() return redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3]) end

local by_hand = action == 'add' or action == 'publish'
local function offered(item) return redis.call('SISMEMBER', KEYS[8], item) == 1 end
local chosen, came, new = {}, {}, 0
for i = 6, #ARGV, 3 do
  local item = ARGV[i]
  if wanted(item, ARGV[i + 1]) then
    chosen[#chosen + 1] = i
    came[item] = true
    if not redis.call('ZSCORE', KEYS[2], item) then new = new + 1 end
  end
end
if #chosen == 0 then return { '', 0 } end
if action == 'note' then
  for _, i in ipairs(chosen) do
    local number, rest = string.match(redis.call('HGET', KEYS[6], ARGV[i]), '^(%d+) ?%S* ?%S*(.*)$')
    redis.call('HSET', KEYS[6], ARGV[i], number .. ' ' .. ARGV[i + 1] .. rest)
  end
  redis.call('HSET', KEYS[1], 'modified', ARGV[1])
  return { '', #chosen }
end
local count = redis.call('ZCARD', KEYS[2])
if by_hand and new > 0 and count + new > most then
  local room = most - count
  for _, item in ipairs(redis.call('SMEMBERS', KEYS[8])) do
    if not came[item] and redis.call('ZSCORE', KEYS[2], item) then room = room + 1 end
  end
  if new > room then return { 'full', count } end
end

for place, i in ipairs(chosen) do
  local item = ARGV[i]
  -- A microsecond apart, so that lists keep the order in which the items were given.
  local edited = string.format('%.6f', now + (place - 1) * 1e-6)
  local by_source = action == 'offer' or action == 'edit' and offered(item)
  local again = action == 'edit' and ' edited' or redis.call('ZSCORE', KEYS[4], item) and ' again' or ''
  leave(item)
  -- The impressions of a removed item stay until it is published again.
  if action ~= 'remove' then redis.call('HDEL', KEYS[5], item) end
  if action == 'drop' then
    redis.call('ZREM', KEYS[4], item)
  else
    redis.call('ZADD', KEYS[4], edited, item)
    if action ~= 'remove' then
      redis.call('ZADD', KEYS[2], ARGV[i + 2], item)
      local number = redis.call('HINCRBY', KEYS[1], 'editions', 1)
      redis.call('HSET', KEYS[6], item, number .. ' ' .. ARGV[i + 1] .. ' ' .. ARGV[i + 2] .. again)
      if by_source then redis.call('SADD', KEYS[8], item) end
    end
  end
end
redis.call('HSET', KEYS[1], 'modified', ARGV[1])

local over = size() - most
if over > 0 then
  for _, item in ipairs(redis.call('ZRANGE', KEYS[3], 0, over - 1)) do leave(item) end
end
over = size() - most
if over > 0 then
  -- In steps, so that the remaining archives keep their limits; in a feed too small for archives one by one.
  local step = tonumber(ARGV[5])
  if most < 2 * step then step = 1 end
  local leaving = math.ceil(over / step) * step
  for _, item in ipairs(redis.call('ZRANGE', KEYS[2], 0, by_hand and -1 or leaving + #chosen - 1)) do
    if leaving == 0 then break end
    if not came[item] and (not by_hand or offered(item)) then
      leave(item)
      leaving = leaving - 1
    end
  end
end
-- For more new items at once than there is room for.
over = size() - most
if over > 0 then
  for _, item in ipairs(redis.call('ZRANGE', KEYS[2], 0, over - 1)) do leave(item) end
end
local forgotten = redis.call('ZCARD', KEYS[4]) - size() - tonumber(ARGV[4])
if forgotten > 0 then
  for _, item in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do
    if forgotten == 0 then break end
    if not is_in(item) then
      redis.call('ZREM', KEYS[4], item)
      redis.call('HDEL', KEYS[5], item)
      forgotten = forgotten - 1
    end
  end
end
return { '', #chosen }
