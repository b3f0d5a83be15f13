-- Adds the same items, newest first, to timelines, one after the other.
--
-- Atomic per item and timeline: one step checks the subscription, the filter, `gone`, duplicates, block, mute and limit, and writes
-- the item. So nothing can happen in between (an unfollow, a mute, a removal, the same delivery again). Adding the same
-- items again changes nothing: items in posts, hidden or `gone` are recognised.
--
-- An item in `gone` stays out, with two exceptions: it left unread by an unfollow, or it was replaced by a duplicate
-- that has left by an unfollow since. (If that duplicate isn't known here any more, the item stays out: the duplicate
-- may have been read.)
--
-- Duplicates: if the winner is in the timeline and its feed is followed, the item goes to `gone` at once. A duplicate
-- that loses, or whose feed isn't followed any more, is replaced, and its read state is kept. A duplicate that left
-- permanently (read, removed, …) keeps the item out for the same reason. If two duplicates are in the timeline because
-- they weren't known to be duplicates, the one whose feed isn't followed any more leaves; if it was read, the other
-- becomes read.
--
-- The first items of a feed after a follow are its first fill. They set the score from which items of the feed are
-- unread, stored in the channel as `unread_from <feed>`: the score of the n-th newest item, or the time of following if
-- that is earlier. Blocked and muted items aren't counted, because nobody sees them. Older items are always added as
-- read, so the order and number of readings of a document make no difference.
--
-- Lua can't apply filters. So the caller names the filters by which it chose the items. If there are others by now, the
-- reply names those and nothing is added: items are always chosen by the current filters. That of all channels stands in
-- the user's record, so one write changes it everywhere; notices of this server in `notifications` don't go by it. The
-- script runs for every follower of a feed, so each command counts: one EXISTS shows that a timeline has neither rules nor hidden
-- items, as most do, and ZADD NX shows whether an item is there already. Several timelines in one call share what the
-- call costs. One that can't be changed ends the call; then delivery/delivery.py adds to each of the others alone.
-- A paused follow takes only items that left unread by an unfollow, so that an unfollow can be undone. The items of a
-- feed that the user hides in "All" are noted in `apart`, whether they enter now or are there already.
--
-- KEYS  1.. timelines: of each 17: channel, feeds, posts, unread, read, gone, hidden, hidden-read, muted (channel,
--       global), blocked (channel, global), apart, arrivals (two), events, user
-- ARGV  1 feed: or '' for an item without a feed  2 now  3 further: 'score score …' of the items of further calls
--       4 count: of the timelines  5.. targets: of each timeline four: its uid; the limit, for channels without this
--       setting, 0 for none; fresh, how many of the newest items of a first fill are unread, for channels without this
--       setting; chosen_by, the filters by which the items were chosen: that of all channels and a tab, if there is
--       one, that of the channel, and after a line break that of the follow, if there is one; '' for none, '*' to
--       ignore filters and the channel's settings. Then the items: per item,
--       newest first: id, score, lines of URLs (author, sources), '' or 'id feed 1 id feed 0 …' of its duplicates, 1
--       if that one wins, and 'own' at the end for an item of the user, which is added as read
-- reply per timeline {'channel'} no such channel; {'feed'} not followed there; {'filters', filters} choose by these
--       first; otherwise {'', added, read, hidden}, lists of ids as 'id id …'
-- include: reasons
-- include: gone
-- include: unread_changes
-- include: readings
-- include: reading_changes
-- include: arrivals
-- include: events
-- include: timeline
local call = redis.call
local feed, now = ARGV[1], ARGV[2]
local KEYS_EACH, FACTS_EACH, FIELDS, AT_ONCE = 17, 4, 4, 100
local FIRST_FACT = 5
local FIRST_ITEM = FIRST_FACT + FACTS_EACH * tonumber(ARGV[4])
local from = 'unread_from ' .. feed

-- The timeline that gets the items now: its keys, what its channel says, and the ids that it took.
local feeds, posts, unread, sets
local limit, unread_from, paused, is_hiding, mutes, blocks
local added, read, hidden

-- The score of the `fresh`-th newest visible item, or of the oldest one if there are fewer.
local function nth_score(fresh)
  local count, score = 0, nil
  for at = FIRST_ITEM, #ARGV, FIELDS do
    local urls = mutes and urls_of(ARGV[at + 2])
    if not (mutes and (ruled(mutes, urls) or ruled(blocks, urls))) then
      count, score = count + 1, ARGV[at + 1]
      if count == fresh then return score end
    end
  end
  for further in string.gmatch(ARGV[3], '%S+') do
    count, score = count + 1, further
    if count == fresh then return score end
  end
  return score
end

local function stands(id)
  return call('ZSCORE', posts, id) or (is_hiding and call('ZSCORE', sets.hidden, id))
end

-- A lost timeline may have left its read set: an item that was read stays read.
local function time_of_reading(id)
  return reading_time(sets.read, id) or (is_hiding and reading_time(sets.hidden_read, id))
end

-- The effect of the duplicates: a reason for the item to go to `gone`, or the list of duplicates that it replaces; and
-- whether any of them is known here.
local function yields(duplicates)
  local over, known = {}, false
  for id, from, wins in string.gmatch(duplicates, '(%S+) (%S+) (%d)') do
    local reason = left_as(sets, id)
    if reason then
      if reason == UNFOLLOWED then
        known = true
      elseif reason ~= DUPLICATE then
        return reason, {}, true
      end
    elseif stands(id) then
      known = true
      if wins == '1' and call('HEXISTS', feeds, from) == 1 then return DUPLICATE, {}, true end
      over[#over + 1] = id
    end
  end
  return nil, over, known
end

-- Removes the oldest items if an added item has made the timeline too long; false if that is the item itself.
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
    if drop_unread(unread, out) == 0 then forget_readings(sets.read, { out }) end
    remember(sets, out, EVICTED)
  end
  return true
end

-- Removes duplicates of an item that is in the timeline.
local function unite(id, duplicates)
  for one, from in string.gmatch(duplicates, '(%S+) (%S+) %d') do
    if stands(one) and call('HEXISTS', feeds, from) == 0 then
      local read_at = time_of_reading(one)
      leave(sets, { one }, DUPLICATE)
      if read_at and drop_unread(unread, id) == 1 then note_readings(sets.read, read_at, { id }) end
    end
  end
end

local function take(id, score, lines, duplicates)
  local left = left_as(sets, id)
  if left and not MAY_RETURN[left] then return end
  if paused and left ~= UNFOLLOWED then return end
  if (mutes or left or duplicates ~= '') and stands(id) then
    unite(id, duplicates)
    return
  end
  local reason, over, known
  if left == DUPLICATE or duplicates ~= '' then
    reason, over, known = yields(duplicates)
    if reason or (left == DUPLICATE and not known) then
      if reason and reason ~= left then
        if left then forget(sets, id) end
        leave(sets, { id }, reason)
      end
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
    for _, one in ipairs(over) do leave(sets, { one }, DUPLICATE) end
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
    if not read_at and string.sub(duplicates, -3) == 'own' then read_at = now end
  end
  if left then forget(sets, id) end
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

-- What a first fill says about the feed's unread items is kept with the channel.
local function begin(channel, follow, fresh)
  local followed_at = cjson.decode(follow).followed_at
  local score = tonumber(fresh) > 0 and nth_score(tonumber(fresh))
  if not score or tonumber(score) > followed_at then score = string.format('%.0f', math.floor(followed_at)) end
  call('HSET', channel, from, score)
  unread_from = tonumber(score)
end

local function joined(ids) return ids[2] and table.concat(ids, ' ') or ids[1] or '' end

-- add(first, fact): adds the items to the timeline whose keys begin at KEYS[first] and whose facts begin at ARGV[fact];
-- returns the reply for it.
local function add(first, fact)
  local chosen_by = ARGV[fact + 3]
  local channel, read_key, gone, hidden_key, hidden_read
  channel, feeds, posts, unread, read_key, gone, hidden_key, hidden_read = unpack(KEYS, first, first + 7)
  local head = call('HMGET', channel, 'name', 'removed', 'filters', 'max_items', from)
  if not head[1] or head[2] then return { 'channel' } end
  local filters, follow, hides = head[3] or '', nil, nil
  local of_all = ARGV[fact] ~= 'notifications' and call('HGET', KEYS[first + 16], 'filters')
  if of_all then filters = of_all .. '\t' .. filters end
  paused = false
  if feed ~= '' then
    follow = call('HGET', feeds, feed)
    if not follow then return { 'feed' } end
    if string.find(follow, '"settings"', 1, true) then
      local own = cjson.decode(follow).settings or {}
      hides, paused = own.hide_in_all, own.paused
      if own.filter then filters = filters .. '\n' .. own.filter end
    end
  end
  local has_own_settings = chosen_by ~= '*'
  if has_own_settings and chosen_by ~= filters then return { 'filters', filters } end
  limit = tonumber(has_own_settings and head[4] or ARGV[fact + 1])
  sets = { uid = ARGV[fact], posts = posts, unread = unread, read = read_key, gone = gone, hidden = hidden_key }
  sets.hidden_read = hidden_read
  local apart, parts, newest = KEYS[first + 12], false, newest_of(unread)
  is_hiding, mutes, blocks = false, nil, nil
  local there = call('EXISTS', newest, rest_of(sets), KEYS[first + 15], unpack(KEYS, first + 6, first + 12))
  local has_newest = there > 0 and call('EXISTS', newest) == 1
  if not has_newest then has_no_newest(unread) end
  if there == (has_newest and 1 or 0) then
    has_no_rest(sets)
    has_no_stream(sets)
  else
    is_hiding = call('EXISTS', hidden_key, hidden_read) > 0
    parts = call('EXISTS', apart) == 1
    mutes, blocks = rules_at(first + 8)
  end
  added, read, hidden = {}, {}, {}
  unread_from = tonumber(head[5])
  if feed ~= '' and not unread_from and #ARGV >= FIRST_ITEM then
    begin(channel, follow, has_own_settings and call('HGET', channel, 'first_fetch_unread') or ARGV[fact + 2])
  end
  if hides or parts then
    for at = FIRST_ITEM, #ARGV, FIELDS do call(hides and 'SADD' or 'SREM', apart, ARGV[at]) end
  end
  for at = FIRST_ITEM, #ARGV, FIELDS do take(unpack(ARGV, at, at + 3)) end
  note_all(first + 13, now)
  return { '', joined(added), joined(read), joined(hidden) }
end

local replies = {}
for i = 0, ARGV[4] - 1 do replies[i + 1] = add(KEYS_EACH * i + 1, FIRST_FACT + FACTS_EACH * i) end
return replies
