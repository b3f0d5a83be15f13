-- A page of one timeline, or of all channels of a user merged newest first, each item once: one round trip with the
-- check of the token.
--
-- Atomic: token, user, channels, ids, and read state. So an item that a page shows as unread is also in the unread
-- count of that moment, and an item that moves between two channels is seen in one of them. Writes nothing.
--
-- The score of an item is the same in every timeline, so all copies of an item reach the heads of their channels at the
-- same time. Channels are read in small blocks, because most items of a page come from few channels.
--
-- Items of feeds that the user hides in "All" (`apart`) aren't merged from that channel. Unread items are found among the
-- channel's items, or if they are few, by the intersection of both sets.
--
-- KEYS  1 channels  2 user  3 saved: its posts  4 behind  5 token?: if one is to be checked
-- ARGV  1 limit  2 direction: '', 'after' or 'before'  3, 4 cursor: its score and id  5 now  6-9 patterns: channel, the
--       posts, unread, apart  10 uid: or 'global'  11 view: 'unread', or '' for all
-- reply {'token'} no such token, or expired; {'disabled'} the user; {'channel'} no such channel or user; otherwise
--       {'', {uid, name, …} of the channels that occur, 1 if older items follow, 'id score id score …' newest first,
--       one byte per id: 1 for unread and 2 more for saved, scopes or '', 'uid …' one per id if several channels are
--       merged, 1 if posts wait to be added to timelines of this user, the user's number of own names for feeds
--       (subscription_write.lua) or '', the place 'score id' to continue at, if the page ends among posts that the view
--       doesn't show, or ''}. An item is unread if it is unread in any channel, and then such a channel is named.
-- include: rank
-- include: active
-- include: unread
local limit, upward, only_unread = tonumber(ARGV[1]), ARGV[2] == 'before', ARGV[11] == 'unread'
local scope, waiting = '', redis.call('EXISTS', KEYS[4])
local user = redis.call('HMGET', KEYS[2], 'disabled', 'names', 'apart')
local own_names = user[2] or ''
if KEYS[5] then
  scope = scope_of(KEYS[5], ARGV[5])
  if not scope then return { 'token' } end
  if user[1] then return { 'disabled' } end
end

local posts_before, posts_behind = string.match(ARGV[7], '^(.-)%*(.*)$')
local function channel(uid) return (string.gsub(ARGV[6], '%*', uid)) end
local function posts(uid) return posts_before .. uid .. posts_behind end
local function unread(uid) return (string.gsub(ARGV[8], '%*', uid)) end

-- The states of these ids; `open` has an entry for each unread one.
local function states(ids, open)
  if #ids == 0 then return '' end
  local saved, found = redis.call('ZMSCORE', KEYS[3], unpack(ids)), {}
  for i = 1, #ids do
    if saved[i] then
      found[i] = open[i] and '\3' or '\2'
    else
      found[i] = open[i] and '\1' or '\0'
    end
  end
  return table.concat(found)
end

-- Most heads of channels at which one page may continue, and hidden posts that it may skip, so that a post in thousands
-- of channels, or thousands of hidden posts, block Redis for only a few milliseconds: the page may then be shorter, and
-- is marked as having more.
local MOST_STEPS = 10000
-- So many unread items are read faster at once than looked for.
local FEW = 10
local steps, older = 0, false

-- The ids without those of hidden feeds, and if only unread ones are wanted, without the others.
local function shown(stream, ids)
  if #ids == 0 then return ids end
  local kept = {}
  local hidden = stream.apart and redis.call('SMISMEMBER', stream.apart, unpack(ids))
  local open = stream.unread and are_unread(stream.unread, ids)
  for i = 1, #ids do
    if (not hidden or hidden[i] == 0) and (not open or open[i]) then kept[#kept + 1] = ids[i] end
  end
  return kept
end

-- These ids of a channel as rows.
local function rows_of(key, ids)
  if #ids == 0 then return ids end
  local rows = {}
  for i, score in ipairs(redis.call('ZMSCORE', key, unpack(ids))) do
    rows[2 * i - 1], rows[2 * i] = ids[i], score
  end
  return rows
end

-- Whether (one score, one id) comes before the other in the order of the walk.
local function precedes(score, id, other_score, other_id)
  if score == other_score then return id ~= other_id and (id > other_id) ~= upward end
  return (score > other_score) ~= upward
end

-- The first rows in the other direction, up to the one that ends at `last`.
local function turned(rows, last)
  local found = {}
  for i = last - 1, 1, -2 do
    found[#found + 1] = rows[i]
    found[#found + 1] = rows[i + 1]
  end
  return found
end

-- The few unread items of a channel behind a place, as rows; and whether there are others.
local function few_unread(stream, score, id)
  -- Of a set, all scores are 1: times 0, those of the posts are left.
  local rows = redis.call('ZINTER', 2, stream.key, unread(stream.uid), 'WEIGHTS', 1, 0, 'WITHSCORES')
  local from, to, step = #rows - 1, 1, -2
  if upward then from, to, step = 1, #rows - 1, 2 end
  local found, place = {}, score and tonumber(score)
  for i = from, to, step do
    if not place or precedes(place, id, tonumber(rows[i + 1]), rows[i]) then
      found[#found + 1] = rows[i]
      found[#found + 1] = rows[i + 1]
    end
  end
  local others = #found < #rows
  if stream.apart then
    local ids = {}
    for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
    found = rows_of(stream.key, shown(stream, ids))
  end
  return found, others
end

-- Whether a channel has unread items from a place on; after some steps, whether it may have.
local function has_unread_from(stream, first)
  local last = first + MOST_STEPS
  local block = 5
  while first < last do
    local ids = redis.call('ZREVRANGE', stream.key, first, first + block - 1)
    if #ids == 0 then return false end
    for _, is_open in ipairs(are_unread(stream.unread, ids)) do
      if is_open then return true end
    end
    first, block = first + #ids, math.min(1000, 4 * block)
  end
  return true
end

-- The items of the next block, nearest first, as ids or with scores as rows; and its last one.
local function examined(stream, block, ...)
  local first, last = stream.next, stream.next + block - 1
  if upward then
    if first == 0 then return {} end
    first, last = math.max(0, first - block), first - 1
  end
  local found = redis.call('ZREVRANGE', stream.key, first, last, ...)
  if not upward then
    stream.next = first + #found / (... and 2 or 1)
    return found
  end
  stream.next = first
  if ... then return turned(found, #found) end
  local ids = {}
  for i = #found, 1, -1 do ids[#ids + 1] = found[i] end
  return ids
end

local function refill(stream)
  stream.at = 1
  if stream.is_whole then
    stream.rows = {}
    return
  end
  local block = stream.block
  if not stream.filters then
    stream.block = math.min(limit + 1, 2 * block + 1)
    stream.rows = examined(stream, block, 'WITHSCORES')
    return
  end
  if stream.last and stream.unread then
    -- The first block had too few: as many as one probably looks at for those that are wanted, or all unread ones.
    block = math.min(1000, math.max(block, math.ceil(stream.wanted * stream.size / stream.count)))
    if 2 * stream.count <= block then
      local score = redis.call('ZSCORE', stream.key, stream.last)
      stream.rows, stream.is_whole, stream.skips = few_unread(stream, score, stream.last), true, false
      return
    end
  end
  stream.block = math.min(1000, 2 * block + 1)
  local ids = examined(stream, block)
  local kept = shown(stream, ids)
  stream.last = ids[#ids]
  steps = steps + #ids - #kept
  stream.skips = #kept == 0 and #ids > 0
  stream.rows = rows_of(stream.key, stream.skips and { stream.last } or kept)
end

-- A channel from the cursor on, of which `block` items are probably wanted; nil if none is. `hides`: without those of
-- hidden feeds.
local function begin(uid, key, block, hides)
  local stream = { uid = uid, key = key, next = 0, rows = {}, at = 1, block = block }
  if hides then
    local apart = string.gsub(ARGV[9], '%*', uid)
    stream.apart = redis.call('EXISTS', apart) == 1 and apart
  end
  if only_unread then
    local of_unread = unread(uid)
    stream.count, stream.size, stream.wanted = count_unread(of_unread), redis.call('ZCARD', key), block
    if stream.count == 0 then return nil end
    if stream.count <= block + FEW then
      local others
      stream.rows, others = few_unread(stream, ARGV[2] ~= '' and ARGV[3], ARGV[4])
      stream.is_whole = true
      if upward and others then older = true end
      return stream
    end
    stream.unread = stream.count < stream.size and of_unread
    stream.block = math.min(3 * block, math.ceil(1.1 * block * stream.size / stream.count))
  end
  stream.filters = stream.apart or stream.unread
  if ARGV[2] ~= '' then
    local newer, stands = rank(key, ARGV[3], ARGV[4])
    stream.next = newer + (upward and 0 or stands)
    if upward and redis.call('ZCARD', key) > newer then
      older = older or not stream.unread or has_unread_from(stream, newer)
    end
  end
  return stream
end

-- The rows of one channel next to the cursor, nearest first, at least one more than the limit if there are more; and the
-- place at which to go on, if so many others were examined that these are not all.
local function unread_rows(uid, key)
  local stream, rows = begin(uid, key, math.ceil(1.2 * limit) + 1, false), {}
  if not stream or stream.is_whole then return stream and stream.rows or rows, '' end
  repeat
    refill(stream)
    local found = stream.skips and {} or stream.rows
    for i = 1, #found do rows[#rows + 1] = found[i] end
    if steps > MOST_STEPS and #rows <= 2 * limit then
      older = older or not upward
      return rows, stream.skips and stream.rows[2] .. ' ' .. stream.rows[1] or ''
    end
  until #rows > 2 * limit or #stream.rows == 0
  return rows, ''
end

local function of_one(uid, name)
  local key, resume = posts(uid), ''
  local rows
  if only_unread and count_unread(unread(uid)) < redis.call('ZCARD', key) then
    rows, resume = unread_rows(uid, key)
    older = older or (not upward and #rows > 2 * limit)
    if upward then rows = turned(rows, math.min(#rows, 2 * limit)) end
  elseif upward then
    local before = rank(key, ARGV[3], ARGV[4])
    older = redis.call('ZCARD', key) > before
    rows = before == 0 and {} or redis.call('ZREVRANGE', key, math.max(0, before - limit), before - 1, 'WITHSCORES')
  else
    local first = 0
    if ARGV[2] == 'after' then
      local before, stands = rank(key, ARGV[3], ARGV[4])
      first = before + stands
    end
    rows = redis.call('ZREVRANGE', key, first, first + limit, 'WITHSCORES')
    older = #rows > 2 * limit
  end
  local count = math.min(#rows / 2, limit)
  local ids = {}
  for i = 1, count do ids[i] = rows[2 * i - 1] end
  local open = only_unread and ids or (count > 0 and are_unread(unread(uid), ids))
  local text = table.concat(rows, ' ', 1, 2 * count)
  return { '', { uid, name }, older and 1 or 0, text, states(ids, open), scope, '', waiting, own_names, resume }
end

if ARGV[10] ~= 'global' then
  local head = redis.call('HMGET', channel(ARGV[10]), 'name', 'removed')
  if not head[1] or head[2] then return { 'channel' } end
  return of_one(ARGV[10], head[1])
end
local uids = redis.call('ZRANGE', KEYS[1], 0, -1)
if #uids == 0 then return { 'channel' } end

-- The channels as a heap by their next item: none comes before the one at half its index. If several channels have the
-- same next item, the first is in the heap and the others are in its `also`. A channel whose block is hidden as a whole
-- `skips` it: it stands in the heap with the block's last item, behind others with the same one, and isn't picked. So no
-- channel is read beyond the place that the page has reached.
local heap, heads = {}, {}

local function before(one, other)
  if one.score == other.score and one.id == other.id then return other.skips and not one.skips end
  return precedes(one.score, one.id, other.score, other.id)
end

local function push(stream)
  if stream.at > #stream.rows then refill(stream) end
  local id, text = stream.rows[stream.at], stream.rows[stream.at + 1]
  if not id then return end
  stream.at, stream.also = stream.at + 2, nil
  local head = not stream.skips and heads[id]
  if head then
    head.also = head.also or {}
    head.also[#head.also + 1] = stream
    return
  end
  stream.id, stream.text, stream.score = id, text, tonumber(text)
  if not stream.skips then heads[id] = stream end
  local at = #heap + 1
  while at > 1 and before(stream, heap[math.floor(at / 2)]) do
    heap[at] = heap[math.floor(at / 2)]
    at = math.floor(at / 2)
  end
  heap[at] = stream
end

local function pop()
  local first, last = heap[1], table.remove(heap)
  if not first.skips then heads[first.id] = nil end
  if #heap == 0 then return first end
  local at = 1
  while true do
    local next_one = 2 * at
    if next_one < #heap and before(heap[next_one + 1], heap[next_one]) then next_one = next_one + 1 end
    if next_one > #heap or not before(heap[next_one], last) then break end
    heap[at] = heap[next_one]
    at = next_one
  end
  heap[at] = last
  return first
end

-- The score that a channel's newest item needs to get on the page, once enough scores are known; nil before.
local function needed()
  local scores = {}
  for _, stream in ipairs(heap) do
    if not stream.skips then scores[#scores + 1] = stream.score end
  end
  if #scores <= limit then return nil end
  table.sort(scores)
  return string.format('%.17g', scores[#scores - limit + 1])
end

-- Whether a channel may have something from that score on. Most of hundreds of channels have nothing for the first page:
-- Redis counts zero items faster than it lists them, and a few are examined faster than all that are unread.
local function may_have(uid, key, bound)
  local count = redis.call('ZCOUNT', key, bound, '+inf')
  if count == 0 or not only_unread then return count > 0 end
  if count > math.min(100, 2 * count_unread(unread(uid))) then return true end
  for _, is_open in ipairs(are_unread(unread(uid), redis.call('ZREVRANGE', key, 0, count - 1))) do
    if is_open then return true end
  end
  return false
end

local block = math.min(limit + 1, math.max(1, math.ceil(2 * limit / #uids)))
local bound, known = nil, limit + 1
for i, uid in ipairs(uids) do
  if i > known and ARGV[2] == '' then
    bound, known = needed(), 2 * known
  end
  local key = posts(uid)
  if not bound or may_have(uid, key, bound) then
    local stream = begin(uid, key, block, user[3])
    if stream then push(stream) end
  end
end

-- Takes the next item of that channel: notes the channel's state for it, and advances the channel.
local function take(row, stream)
  if not row.open and (only_unread or is_unread(unread(stream.uid), row.id)) then
    row.uid, row.open = stream.uid, true
  end
  push(stream)
end

local picked, skipped, resume = {}, '', ''
steps = 0 -- without the first blocks: each page gets on
while #heap > 0 do
  if #picked == limit or steps > MOST_STEPS then
    older, resume = older or not upward, skipped
    break
  end
  local first = pop()
  if first.skips then
    skipped = first.text .. ' ' .. first.id
    push(first)
  else
    local row = { id = first.id, text = first.text, uid = first.uid, open = false }
    local also = first.also or {}
    take(row, first)
    for _, stream in ipairs(also) do take(row, stream) end
    steps = steps + 1 + #also
    picked[#picked + 1], skipped = row, ''
  end
end

local pairs_, ids, open, homes, names, named = {}, {}, {}, {}, {}, {}
for i = 1, #picked do
  local row = picked[upward and #picked + 1 - i or i]
  ids[i] = row.id
  pairs_[2 * i - 1] = row.id
  pairs_[2 * i] = row.text
  open[i] = row.open
  homes[i] = row.uid
  if not named[row.uid] then
    named[row.uid] = true
    names[#names + 1] = row.uid
    names[#names + 1] = redis.call('HGET', channel(row.uid), 'name')
  end
end
local rows = table.concat(pairs_, ' ')
local places = table.concat(homes, ' ')
return { '', names, older and 1 or 0, rows, states(ids, open), scope, places, waiting, own_names, resume }
