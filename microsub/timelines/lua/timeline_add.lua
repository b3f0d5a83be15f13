-- Takes items into one timeline, newest first.
--
-- Atomic per item: the subscription, the filter, `gone`, duplicates, block, mute and limit are asked and the item is
-- written in one step, so that nothing which happens at the same time (an unfollow, a mute, a removal, the same delivery
-- again) finds a gap. Running it again with the same items changes nothing: what stands in posts, hidden or `gone` is known.
--
-- An item that is in `gone` stays out, but for two reasons: it left unread by an unfollow, or it yielded to a duplicate
-- that has left by an unfollow since. (An item whose duplicate isn't known here any more stays out: the duplicate may
-- have been read.)
--
-- Duplicates: where the winner stands and its feed is followed, the item goes to `gone` at once; a duplicate that
-- yields, or whose feed isn't followed any more, hands over its place with its read state; a duplicate that left for
-- good (read, removed, …) keeps the item out for the same reason. Of two that stand because nobody knew that they are
-- duplicates, the one whose feed isn't followed any more leaves; if it was read, the other one was.
--
-- The first items of a feed after a follow are its first fill. They decide from which score on items of the feed are
-- unread, and the channel keeps it as `unread_from <feed>`: the score of the n-th newest one, or the time of following
-- where that is earlier. What is blocked or muted isn't counted, since nobody sees it. What is older comes in as read,
-- then and later, whatever brings it: so it makes no difference how often a document is read, in which order, or what is sent again.
--
-- Filters are more than Lua can judge by. So the caller says by which filters it has chosen the items, and where the
-- channel has others the reply names these and nothing happens: what is added was chosen by the filters of that very
-- moment. The script runs for every subscriber of a feed, so each command counts here: most
-- timelines have neither rules nor hidden items, which one EXISTS says, and ZADD NX says whether an item stands already.
--
-- KEYS  1 channel  2 feeds  3 posts  4 unread  5 read  6 gone  7 hidden  8 hidden-read
--       9, 10 muted (channel, global)  11, 12 blocked (channel, global)  13, 14 arrivals  15 events
-- ARGV  1 feed, or '' for an item of no feed  2 now  3, 4 what holds where the channel says nothing: its limit, 0 for
--       none, and how many of the newest of a first fill stay unread  5 'score score …' of the items that further calls
--       will give  6 the filters by which the items were chosen, '' for none, '*' for items that come in anyway, with
--       3 and 4 as they are  7 uid
--       8.. per item, newest first: id, score, lines of URLs (author, sources), '' or 'id feed 1 id feed 0 …' of its
--       duplicates, 1 where that one wins
-- reply {'channel'} no such channel; {'feed'} not followed there; {'filters', filters} choose by these first; else
--       {'', added, read, hidden}, lists of ids as 'id id …'
-- include: reasons
-- include: timeline
local FIRST_ITEM, FIELDS, AT_ONCE = 8, 4, 100

local call = redis.call
local feed, now, chosen_by = ARGV[1], ARGV[2], ARGV[6]
local from = 'unread_from ' .. feed
local head = call('HMGET', KEYS[1], 'name', 'removed', 'filters', 'max_items', 'first_fetch_unread', from)
if not head[1] or head[2] then return { 'channel' } end
if feed ~= '' and call('HEXISTS', KEYS[2], feed) == 0 then return { 'feed' } end
local limit, fresh = tonumber(ARGV[3]), tonumber(ARGV[4])
if chosen_by ~= '*' then
  if chosen_by ~= (head[3] or '') then return { 'filters', head[3] or '' } end
  limit, fresh = tonumber(head[4]) or limit, tonumber(head[5]) or fresh
end

local posts, unread, gone = KEYS[3], KEYS[4], KEYS[6]
local sets = { posts = posts, unread = unread, read = KEYS[5], hidden = KEYS[7], hidden_read = KEYS[8], gone = gone }
sets.uid = ARGV[7]
local is_hiding, mutes, blocks = false, nil, nil
if call('EXISTS', unpack(KEYS, 7, 12)) > 0 then
  is_hiding = call('EXISTS', KEYS[7], KEYS[8]) > 0
  mutes, blocks = some({ KEYS[9], KEYS[10] }), some({ KEYS[11], KEYS[12] })
end
local added, read, hidden = {}, {}, {}

-- The score of the n-th newest item that is shown, of the oldest one where there are fewer.
local function nth_score()
  local count, score = 0, nil
  for at = FIRST_ITEM, #ARGV, FIELDS do
    local urls = mutes and urls_of(ARGV[at + 2])
    if not (mutes and (ruled(mutes, urls) or ruled(blocks, urls))) then
      count, score = count + 1, ARGV[at + 1]
      if count == fresh then return score end
    end
  end
  for further in string.gmatch(ARGV[5], '%S+') do
    count, score = count + 1, further
    if count == fresh then return score end
  end
  return score
end

local unread_from = tonumber(head[6])
if feed ~= '' and not unread_from and #ARGV >= FIRST_ITEM then
  local followed_at = cjson.decode(call('HGET', KEYS[2], feed)).followed_at
  local score = fresh > 0 and nth_score()
  if not score or tonumber(score) > followed_at then score = string.format('%.6f', followed_at) end
  call('HSET', KEYS[1], from, score)
  unread_from = tonumber(score)
end

local function stands(id)
  return call('ZSCORE', posts, id) or (is_hiding and call('ZSCORE', sets.hidden, id))
end

-- A timeline that was lost may have left its read set behind: what was read once stays read.
local function time_of_reading(id)
  return call('ZSCORE', sets.read, id) or (is_hiding and call('ZSCORE', sets.hidden_read, id))
end

-- What the duplicates say: a reason of gone that takes the item along, or the list of those that hand over; and whether
-- any of them is known here.
local function yields(duplicates)
  local over, heard = {}, false
  for id, from, wins in string.gmatch(duplicates, '(%S+) (%S+) (%d)') do
    local left = call('ZSCORE', gone, id)
    if left then
      local reason = reason_of(left)
      if reason == UNFOLLOWED then
        heard = true
      elseif reason ~= DUPLICATE then
        return reason, {}, true
      end
    elseif stands(id) then
      heard = true
      if wins == '1' and call('HEXISTS', KEYS[2], from) == 1 then return DUPLICATE, {}, true end
      over[#over + 1] = id
    end
  end
  return nil, over, heard
end

-- Lets the oldest go where an item that was just added has made the timeline too long; false when that is the item.
local function fits(id)
  local excess = call('ZCARD', posts) - limit
  if excess < 1 then return true end
  if excess > AT_ONCE and call('ZRANK', posts, id) < excess then return false end
  local oldest = call('ZRANGE', posts, 0, math.min(excess, AT_ONCE) - 1)
  for _, out in ipairs(oldest) do
    if out == id then return false end
  end
  for _, out in ipairs(oldest) do
    call('ZREM', posts, out)
    departs(out)
    changed(sets)
    if call('ZREM', unread, out) == 0 then call('ZREM', sets.read, out) end
    call('ZADD', gone, gone_at(math.floor(tonumber(now)), EVICTED), out)
  end
  return true
end

-- Takes out duplicates of an item that stands itself.
local function unite(id, duplicates)
  for one, from in string.gmatch(duplicates, '(%S+) (%S+) %d') do
    if stands(one) and call('HEXISTS', KEYS[2], from) == 0 then
      local read_at = time_of_reading(one)
      leave(sets, one, math.floor(tonumber(now)), DUPLICATE)
      if read_at and call('ZREM', unread, id) == 1 then call('ZADD', sets.read, read_at, id) end
    end
  end
end

local function take(id, score, lines, duplicates)
  local left = call('ZSCORE', gone, id)
  local left_as = left and reason_of(left)
  if left and not MAY_RETURN[left_as] then return end
  if (mutes or left or duplicates ~= '') and stands(id) then
    unite(id, duplicates)
    return
  end
  local reason, over, heard
  if left_as == DUPLICATE or duplicates ~= '' then
    reason, over, heard = yields(duplicates)
    if reason or (left_as == DUPLICATE and not heard) then
      if reason then leave(sets, id, math.floor(tonumber(now)), reason) end
      return
    end
  end
  local is_muted = false
  if mutes then
    local urls = urls_of(lines)
    if ruled(blocks, urls) then return end
    is_muted = ruled(mutes, urls)
  end
  local hands_over = over and #over > 0
  local read_at
  if hands_over then
    read_at = time_of_reading(id)
    for _, one in ipairs(over) do read_at = read_at or time_of_reading(one) end
    for _, one in ipairs(over) do leave(sets, one, math.floor(tonumber(now)), DUPLICATE) end
  end
  if not is_muted then
    if call('ZADD', posts, 'NX', score, id) == 0 then return end
    if limit > 0 and not hands_over and not fits(id) then
      call('ZREM', posts, id)
      return
    end
  end
  if not hands_over then
    read_at = time_of_reading(id)
    if not read_at and unread_from and tonumber(score) < unread_from then read_at = now end
  end
  if left then call('ZREM', gone, id) end
  if is_muted then
    enter(sets, id, score, read_at, true)
    is_hiding = true
    hidden[#hidden + 1] = id
  else
    arrives(id)
    show_state(sets, id, score, read_at)
    if read_at then changed(sets) else came_unread(sets, id) end
    local came = read_at and read or added
    came[#came + 1] = id
  end
end

for at = FIRST_ITEM, #ARGV, FIELDS do
  take(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
end
note_all(13, now)
local function joined(ids) return table.concat(ids, ' ') end
return { '', joined(added), joined(read), joined(hidden) }
