-- Takes items into one timeline, newest first.
--
-- Atomic per item: the subscription, `gone`, twins, block, mute and limit are asked and the item is written in one step,
-- so that nothing which happens at the same time (an unfollow, a mute, a removal, the same delivery again) finds
-- a gap. Running it again with the same items changes nothing: what stands in posts, hidden or `gone` is known.
--
-- An item that is in `gone` stays out, but for two reasons: it left unread by an unfollow, or it yielded to a twin that
-- has left by an unfollow since. (A twin whose partner isn't known here any more stays out: the partner may have been
-- read.)
--
-- Twins: where the winner stands and its feed is followed, the item goes to `gone` at once; a twin that yields, or whose
-- feed isn't followed any more, hands over its place with its read state; a twin that left for good (read, removed,
-- …) keeps the item out for the same reason.
--
-- KEYS  1 channel  2 feeds  3 unfilled  4 posts  5 unread  6 read  7 hidden  8 hidden-read  9 gone
--       10, 11 muted (channel, global)  12, 13 blocked (channel, global)
-- ARGV  1 feed, or '' for an item of no feed  2 now  3 now in whole seconds  4 limit, 0 for none  5 how many of the
--       newest of a first fill stay unread  6 '' or the time of following (a first fill that goes on)
--       7.. per item, newest first: id, score, author, n, n sources, m, m times (id, feed, '1' where it wins)
-- reply {'channel'} no such channel; {'feed'} not followed there; else {'', added, read, hidden, suppressed, evicted,
--       time of following or ''}, lists of ids as 'id id …'
-- include: leave
-- include: rules
local UNFOLLOWED, TWIN, EVICTED = 7, 8, 3

local head = redis.call('HMGET', KEYS[1], 'name', 'removed')
if not head[1] or head[2] then return { 'channel' } end
local feed, now, seconds = ARGV[1], ARGV[2], tonumber(ARGV[3])
local limit, fresh = tonumber(ARGV[4]), tonumber(ARGV[5])
local filled_from = ARGV[6]
if feed ~= '' then
  if redis.call('HEXISTS', KEYS[2], feed) == 0 then return { 'feed' } end
  if #ARGV > 6 and redis.call('HEXISTS', KEYS[3], feed) == 1 then
    filled_from = redis.call('HGET', KEYS[3], feed)
    redis.call('HDEL', KEYS[3], feed)
  end
end
local read_before = tonumber(filled_from)
local sets = { posts = KEYS[4], unread = KEYS[5], read = KEYS[6], hidden = KEYS[7], hidden_read = KEYS[8], gone = KEYS[9] }
local mutes, blocks = some({ KEYS[10], KEYS[11] }), some({ KEYS[12], KEYS[13] })
local added, read, hidden, suppressed, evicted = {}, {}, {}, {}, {}

local function stands(id)
  return redis.call('ZSCORE', sets.posts, id) or redis.call('ZSCORE', sets.hidden, id)
end

local function time_of_reading(id)
  return redis.call('ZSCORE', sets.read, id) or redis.call('ZSCORE', sets.hidden_read, id)
end

-- What the twins say: 'out', a reason of gone that takes the item along, or the list of those that hand over.
local function yields(twins)
  local over = {}
  local heard = false
  for _, twin in ipairs(twins) do
    local left = redis.call('ZSCORE', sets.gone, twin.id)
    if left then
      local reason = reason_of(left)
      if reason == UNFOLLOWED then
        heard = true
      elseif reason ~= TWIN then
        return reason, {}, true
      end
    elseif stands(twin.id) then
      heard = true
      if twin.wins and redis.call('HEXISTS', KEYS[2], twin.feed) == 1 then return TWIN, {}, true end
      over[#over + 1] = twin.id
    end
  end
  return nil, over, heard
end

-- Makes room for one item of that place; false when the timeline is full of newer ones.
local function room(score, id)
  if limit == 0 then return true end
  local excess = redis.call('ZCARD', sets.posts) - limit + 1
  if excess < 1 then return true end
  local oldest = redis.call('ZRANGE', sets.posts, excess - 1, excess - 1, 'WITHSCORES')
  local place = tonumber(oldest[2])
  if place > score or (place == score and oldest[1] > id) then return false end
  for _, out in ipairs(redis.call('ZRANGE', sets.posts, 0, math.min(excess, 100) - 1)) do
    leave(sets, out, seconds, EVICTED)
    evicted[#evicted + 1] = out
  end
  return true
end

local function take(item)
  if stands(item.id) then return end
  local left = redis.call('ZSCORE', sets.gone, item.id)
  local left_as = left and reason_of(left)
  if left and left_as ~= UNFOLLOWED and left_as ~= TWIN then
    suppressed[#suppressed + 1] = item.id
    return
  end
  local reason, over, heard = yields(item.twins)
  if reason or (left_as == TWIN and not heard) then
    if reason then leave(sets, item.id, seconds, reason) end
    suppressed[#suppressed + 1] = item.id
    return
  end
  if #blocks > 0 and ruled(blocks, item.urls) then
    suppressed[#suppressed + 1] = item.id
    return
  end
  local muted = #mutes > 0 and ruled(mutes, item.urls)
  -- A timeline that was lost may have left its read set behind: what was read once stays read.
  local read_at = time_of_reading(item.id)
  for _, id in ipairs(over) do read_at = read_at or time_of_reading(id) end
  if not read_at and #over == 0 and read_before and item.place > fresh and tonumber(item.score) < read_before then
    read_at = now
  end
  for _, id in ipairs(over) do leave(sets, id, seconds, TWIN) end
  -- What a twin hands over is a place that the timeline had already.
  if not muted and #over == 0 and not room(tonumber(item.score), item.id) then return end
  redis.call('ZREM', sets.gone, item.id)
  if muted then
    redis.call('ZADD', sets.hidden, item.score, item.id)
    if read_at then redis.call('ZADD', sets.hidden_read, read_at, item.id) end
    hidden[#hidden + 1] = item.id
    return
  end
  redis.call('ZADD', sets.posts, item.score, item.id)
  if read_at then
    redis.call('ZADD', sets.read, read_at, item.id)
    read[#read + 1] = item.id
  else
    redis.call('ZADD', sets.unread, item.score, item.id)
    added[#added + 1] = item.id
  end
end

local at, place = 7, 0
while at <= #ARGV do
  place = place + 1
  local item = { id = ARGV[at], score = ARGV[at + 1], urls = {}, twins = {}, place = place }
  if ARGV[at + 2] ~= '' then item.urls[1] = ARGV[at + 2] end
  local sources = tonumber(ARGV[at + 3])
  for i = 1, sources do item.urls[#item.urls + 1] = ARGV[at + 3 + i] end
  at = at + 4 + sources
  local twins = tonumber(ARGV[at])
  for i = 1, twins do
    local first = at + 3 * i - 2
    item.twins[i] = { id = ARGV[first], feed = ARGV[first + 1], wins = ARGV[first + 2] == '1' }
  end
  at = at + 1 + 3 * twins
  take(item)
end
local function joined(ids) return table.concat(ids, ' ') end
return { '', joined(added), joined(read), joined(hidden), joined(suppressed), joined(evicted), filled_from }
