-- Marks the named items read or unread, in one channel or in all; or marks all unread items from a place on as read.
--
-- Atomic: an item's move between unread and read. Unknown items are ignored, so a mark after a removal creates nothing.
-- Naming a muted item changes its state too, which shows when it is unmuted. A mark from a place on leaves muted items
-- alone, because the user hasn't seen them.
--
-- If posts of the user that are read in one channel are read everywhere, the items are marked in all channels, muted ones
-- too, if the named one shows or hides them. A mark from a place on then lists the items and marks nothing: so their
-- duplicates can be marked first, and no crash leaves duplicates that a repetition doesn't find.
--
-- KEYS  1 channels  2 live_events  3 user
-- ARGV  1-6 patterns: parts/channels.lua  7 uid: or 'global'  8 how: 'read', 'unread', both also with ' here', which means
--       in the named channel alone, or 'until', for one channel  9 now  10.. items: ids; or for 'until' the id of the
--       newest item to mark, '' for all, and its score, '' if the channel has it
-- reply {{'uid id id …' of each channel in which the state of items changed}, number of ids that were examined, the
--       first ones, 1 if the score of an item that has left is needed, for 'until' the 'score id' at which to go on, or
--       '', 'id id …' of the items whose duplicates are to be marked, also if they didn't change, or ''}, or -1: no such
--       channel
-- include: rank
-- include: channels
-- include: events
-- include: reasons
-- include: gone
-- include: unread
-- include: unread_changes
-- include: readings
-- include: reading_changes
local MOST_EXAMINED, MOST_LOOKS, MOST_MARKED, MOST_PIECES = 10000, 10000, 1000, 200
-- The uids of all channels, or of those with items: a look for one item takes no longer than finding these. Nil for a
-- user without channels.
local function all_channels()
  if #ARGV == 10 then
    local all = redis.call('ZRANGE', KEYS[1], 0, -1)
    return #all > 0 and all or nil
  end
  local all = channels_named('global')
  for i = 1, all and #all or 0 do all[i] = all[i].uid end
  return all
end
local uids = ARGV[7] == 'global' and all_channels() or (redis.call('ZSCORE', KEYS[1], ARGV[7]) and { ARGV[7] })
if not uids then return -1 end
local how, where = string.match(ARGV[8], '^(%a+) ?(%a*)$')
local everywhere = where ~= 'here' and redis.call('HGET', KEYS[3], 'read_everywhere') == 'yes'
local spreads = everywhere and where == '' and ARGV[7] ~= 'global'
local named, most = sets_of(uids[1]), MOST_MARKED
if ARGV[7] ~= 'global' and not (how == 'until' and everywhere) then
  -- In a channel with many read items, each can change a piece of its own.
  local pieces = redis.pcall('HLEN', named.read)
  if type(pieces) == 'number' and pieces > MOST_PIECES then most = MOST_PIECES end
end
if spreads and how ~= 'until' then
  uids = all_channels()
  -- Most items are in few of the channels, and looking for them takes less time than changing them.
  most = math.max(1, math.min(most, math.floor(MOST_LOOKS / math.max(1, #uids))))
end

-- The unread items from a place on, and the place at which to go on if there may be more. If they are few, all are looked
-- at, else the channel's items in their order.
local function unread_from(sets, id, score)
  local found, count = {}, count_unread(sets.unread)
  if count <= most then
    local ids = count > 0 and unread_ids(sets.unread) or found
    if id == '' or count == 0 then return ids, '' end
    local first = tonumber(score)
    for i, at in ipairs(redis.call('ZMSCORE', sets.posts, unpack(ids))) do
      local here = at and tonumber(at)
      if here and (here < first or (here == first and ids[i] <= id)) then found[#found + 1] = ids[i] end
    end
    return found, ''
  end
  local first, left = id == '' and 0 or rank(sets.posts, score, id), MOST_EXAMINED
  while true do
    local ids = redis.call('ZREVRANGE', sets.posts, first, first + most - 1)
    if #ids == 0 then return found, '' end
    for i, is_open in ipairs(are_unread(sets.unread, ids)) do
      if is_open then found[#found + 1] = ids[i] end
    end
    first, left = first + #ids, left - #ids
    if #found >= most or left <= 0 then
      local last = ids[#ids]
      return found, redis.call('ZSCORE', sets.posts, last) .. ' ' .. last
    end
  end
end
local to_read, until_place, now, ids, go_on = how ~= 'unread', how == 'until', ARGV[9], {}, ''
if until_place then
  local sets, id, score = named, ARGV[10], ARGV[11]
  if id ~= '' and score == '' then
    score = redis.call('ZSCORE', sets.posts, id) or redis.call('ZSCORE', sets.hidden, id)
    if not score then return { {}, 0, left_as(sets, id) and 1 or 0, '', '' } end
  end
  ids, go_on = unread_from(sets, id, score)
else
  local count = math.min(most, spreads and #ARGV - 9 or share(uids, #ARGV - 9))
  for i = 10, 9 + count do ids[i - 9] = ARGV[i] end
end
local examined = #ids
if everywhere and not until_place and examined > 0 then
  local there = {}
  for _, uid in ipairs(spreads and { named.uid } or uids) do
    local shown = redis.call('ZMSCORE', keyed('posts', uid), unpack(ids))
    local hidden = redis.call('ZMSCORE', keyed('hidden', uid), unpack(ids))
    for i, id in ipairs(ids) do there[id] = there[id] or shown[i] or hidden[i] end
  end
  local known = {}
  for _, id in ipairs(ids) do
    if there[id] then known[#known + 1] = id end
  end
  ids = known
end
local spreading = everywhere and table.concat(ids, ' ') or ''
if #ids == 0 or (everywhere and until_place) then return { {}, examined, 0, go_on, spreading } end
local marked = {}

-- The scores of the items that are in a sorted set, false for the others; nil if none is.
local function scores_in(key)
  local found = redis.call('ZMSCORE', key, unpack(ids))
  for i = 1, #ids do
    if found[i] then return found end
  end
  return nil
end

-- True for each item that is unread in the channel; nil if none is. Most marks name one.
local function unread_in(key)
  if #ids == 1 then return is_unread(key, ids[1]) and { true } or nil end
  local found, count = are_unread(key, ids), 0
  for i = 1, #ids do count = count + (found[i] and 1 or 0) end
  return count > 0 and found or nil
end

-- Whether any of the channels hides items; most users mute nothing.
local function hides_any()
  for first = 1, #uids, 1000 do
    local hidden = {}
    for i = first, math.min(#uids, first + 999) do hidden[#hidden + 1] = keyed('hidden', uids[i]) end
    if redis.call('EXISTS', unpack(hidden)) > 0 then return true end
  end
  return false
end

-- Marks the ids for which `shown` or `hidden` has a value.
local function mark(sets, shown, hidden)
  local open = not to_read and are_unread(sets.unread, ids)
  local out, into, changes = {}, {}, { sets.uid }
  for i, id in ipairs(ids) do
    if shown[i] and (to_read or not open[i]) then
      out[#out + 1] = id
      if not to_read then
        into[#into + 1] = shown[i]
        into[#into + 1] = id
      end
      changes[#changes + 1] = id
    elseif hidden[i] then
      local count
      if to_read then
        count = note_readings(sets.hidden_read, now, { id })
      else
        count = forget_readings(sets.hidden_read, { id })
      end
      if count == 1 then changes[#changes + 1] = id end
    end
  end
  if #changes > 1 then marked[#marked + 1] = table.concat(changes, ' ') end
  if #out > 0 then
    changed(sets)
    if to_read then
      drop_unread(sets.unread, unpack(out))
      note_readings(sets.read, now, out, true)
    else
      forget_readings(sets.read, out)
      add_unread(sets.unread, into)
    end
  end
end

local with_hidden, part = not until_place and hides_any(), to_read and 'unread' or 'posts'
for _, uid in ipairs(uids) do
  local shown = until_place and ids or (to_read and unread_in or scores_in)(keyed(part, uid))
  local hidden = with_hidden and scores_in(keyed('hidden', uid))
  if shown or hidden then mark(sets_of(uid), shown or {}, hidden or {}) end
end
note_changes(KEYS[2])
return { marked, examined, 0, go_on, spreading }
