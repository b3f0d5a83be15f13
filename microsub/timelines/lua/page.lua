-- A page of one timeline, or of all channels of a user merged newest first, each item once: one round trip with the
-- check of the token.
--
-- Atomic: token, user, channels, ids, and read state. So an item that a page shows as unread is also in the unread
-- count of that moment, and an item that moves between two channels is seen in one of them. Writes nothing.
--
-- The score of an item is the same in every timeline, so all copies of an item reach the heads of their channels at the
-- same time. Channels are read in small blocks, because most items of a page come from few channels.
--
-- Items of feeds that the user hides in "All" (`apart`) aren't merged from that channel. Unread items are found in the
-- channel's sorted set of the newest ones (unread_newest.lua); if it ends or isn't there, among the channel's items, or if
-- they are few, by the intersection of both sets.
--
-- KEYS  1 channels  2 user  3 saved: its posts  4 behind  5 token?: if one is to be checked
-- ARGV  1 limit  2 direction: '', 'after' or 'before'  3, 4 cursor: its score and id  5 now  6-9 patterns: channel, the
--       posts, unread, apart  10 uid: or 'global'  11 view: 'unread', or '' for all
-- reply {'token'} no such token, or expired; {'disabled'} the user; {'channel'} no such channel or user; otherwise
--       {'', {uid, name, …} of the channels that occur, 1 if older items follow, 'id score id score …' newest first,
--       one byte per id: 1 for unread and 2 more for saved, scopes or '', 'uid …' one per id if several channels are
--       merged, 1 if posts wait to be added to timelines of this user, the user's number of own names for feeds
--       (subscription_write.lua) or '', the place 'score id' to continue at, if the page ends among posts that the view
--       doesn't show, or '', 'uid …' of channels whose newest unread items aren't in order}. An item is unread if it is unread in any channel, and then such a channel is named.
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

-- Most heads of channels at which one page may continue, and items that it may skip, so that a post in thousands of
-- channels, or thousands of items that the view doesn't show, block Redis for only a few milliseconds: the page may then
-- be shorter, and is marked as having more.
local MOST_STEPS = 10000
-- So many items are looked at with their scores: of more, few are unread, and only these scores are read.
local MOST_AT_ONCE = 50
-- Of a channel's newest unread items, fewer than these aren't enough. Where they end, there are none.
local ENOUGH, LAST = 64, 1000
local steps, older, wanted = 0, false, ''

-- A key of a channel by its pattern; patterns of Lua would take as long as reading ten items.
local function key_of(pattern, uid)
  local star = string.find(pattern, '*', 1, true)
  return string.sub(pattern, 1, star - 1) .. uid .. string.sub(pattern, star + 1)
end

-- The reply with these rows, newest first, and their ids; `marks` are 1 for unread ones, nil if all are unread.
local function reply_of(names, rows, ids, marks, homes, resume)
  local states = string.rep('\1', #ids)
  local saved = #ids > 0 and redis.call('EXISTS', KEYS[3]) == 1 and redis.call('ZMSCORE', KEYS[3], unpack(ids))
  if marks or saved then
    local found = {}
    for i = 1, #ids do found[i] = ((not marks or marks[i] == 1) and 1 or 0) + (saved and saved[i] and 2 or 0) end
    states = #ids > 0 and string.char(unpack(found)) or ''
  end
  local text = table.concat(rows, ' ', 1, 2 * #ids)
  return { '', names, older and 1 or 0, text, states, scope, homes, waiting, own_names, resume, wanted }
end

-- The ids of rows, of the first ones only.
local function ids_of(rows, most)
  local ids, number = {}, math.min(#rows / 2, most)
  for i = 1, number do ids[i] = rows[2 * i - 1] end
  return ids
end

-- One channel. To make a function costs as much as to read an item, so those that few pages need stand further below.
local one, key, of_unread, count, size
if ARGV[10] ~= 'global' then
  local uid = ARGV[10]
  local head = redis.call('HMGET', key_of(ARGV[6], uid), 'name', 'removed')
  if not head[1] or head[2] then return { 'channel' } end
  one, key, of_unread = { uid, head[1] }, key_of(ARGV[7], uid), key_of(ARGV[8], uid)
  if only_unread then
    local newest, newer, stands, rows = of_unread .. ':newest', 0, 0, {}
    if ARGV[2] ~= '' then newer, stands = rank(newest, ARGV[3], ARGV[4]) end
    if not upward then
      rows = redis.call('ZREVRANGE', newest, newer + stands, newer + stands + limit, 'WITHSCORES')
      older = #rows > 2 * limit
      if older then return reply_of(one, rows, ids_of(rows, limit), nil, '', '') end
    end
    count, size = count_unread(of_unread), redis.call('ZCARD', key)
    local known = redis.call('ZCARD', newest)
    if upward and (newer < known or known == count) then
      if newer > 0 then rows = redis.call('ZREVRANGE', newest, math.max(0, newer - limit), newer - 1, 'WITHSCORES') end
      older = newer < known
    end
    if known == count or older then return reply_of(one, rows, ids_of(rows, limit), nil, '', '') end
    if known < ENOUGH and count < size then wanted = uid end
  end
  local is_mixed = only_unread and count < size
  local block = is_mixed and math.ceil(1.1 * (limit + 1) * size / count) + 2 or limit + 1
  if not is_mixed or (not upward and block <= MOST_AT_ONCE and block < count) then
    local newer, stands, rows = 0, 0, {}
    if ARGV[2] ~= '' then newer, stands = rank(key, ARGV[3], ARGV[4]) end
    if not upward then
      rows = redis.call('ZREVRANGE', key, newer + stands, newer + stands + block - 1, 'WITHSCORES')
    elseif newer > 0 then
      rows = redis.call('ZREVRANGE', key, math.max(0, newer - limit), newer - 1, 'WITHSCORES')
    end
    if not is_mixed then
      older = upward and redis.call('ZCARD', key) > newer or #rows > 2 * limit
      local ids = ids_of(rows, limit)
      return reply_of(one, rows, ids, not only_unread and #ids > 0 and unread_marks(of_unread, ids), '', '')
    end
    local ids, number = ids_of(rows, block), 0
    local is_end, marks = #ids < block, #ids > 0 and unread_marks(of_unread, ids)
    for i = 1, #ids do
      if marks[i] == 1 then
        number = number + 1
        ids[number], rows[2 * number - 1], rows[2 * number] = ids[i], ids[i], rows[2 * i]
        if number > limit then break end
      end
    end
    older = number > limit
    if older or is_end then
      for i = #ids, math.min(number, limit) + 1, -1 do ids[i] = nil end
      return reply_of(one, rows, ids, nil, '', '')
    end
  end
end

-- Whether (one score, one id) comes before the other in the order of the walk.
local function precedes(score, id, other_score, other_id)
  if score == other_score then return id ~= other_id and (id > other_id) ~= upward end
  return (score > other_score) ~= upward
end

-- These ids of a channel as rows.
local function rows_of(posts, ids)
  if #ids == 0 then return ids end
  local rows = {}
  for i, score in ipairs(redis.call('ZMSCORE', posts, unpack(ids))) do
    rows[2 * i - 1], rows[2 * i] = ids[i], score
  end
  return rows
end

-- Whether reading all unread items takes less time than looking at so many items of the channel.
local function are_few(unread, items) return unread <= 1000 and 5 * unread <= 3 * items + 10 end

-- The unread items of a channel behind a place that come first, one more than a page has, as rows; and whether there
-- are others on the other side of the place. Without those of `apart`, if that is a set.
local function few_unread(posts, unread, score, id, apart)
  -- Of a set, all scores are 1: times 0, those of the posts are left.
  local all = redis.call('ZINTER', 2, posts, unread, 'WEIGHTS', 1, 0, 'WITHSCORES')
  local at, to, step = #all - 1, 1, -2
  if upward then at, to, step = 1, #all - 1, 2 end
  local first, place = at, score and tonumber(score)
  while place and (to - at) * step >= 0 and not precedes(place, id, tonumber(all[at + 1]), all[at]) do
    at = at + step
  end
  local others, rows, number, ids = at ~= first, {}, 0, {}
  for i = apart and at or to + step, to, step do ids[#ids + 1] = all[i] end
  local hidden = #ids > 0 and redis.call('SMISMEMBER', apart, unpack(ids))
  for i = at, to, step do
    if number > 2 * limit then break end
    if not hidden or hidden[(i - at) / step + 1] == 0 then
      rows[number + 1], rows[number + 2], number = all[i], all[i + 1], number + 2
    end
  end
  return rows, others
end

-- Whether a channel has unread items from a position on; after some steps, whether it may have.
local function has_unread_from(posts, unread, first)
  local last = first + MOST_STEPS
  local block = 5
  while first < last do
    local ids = redis.call('ZREVRANGE', posts, first, first + block - 1)
    if #ids == 0 then return false end
    local marks = unread_marks(unread, ids)
    for i = 1, #ids do
      if marks[i] == 1 then return true end
    end
    first, block = first + #ids, math.min(1000, 4 * block)
  end
  return true
end

-- The unread items of the channel next to the cursor, nearest first, one more than a page has if there are more, as
-- rows; and the place at which to go on, if so many others were examined that these are not all.
local function unread_rows()
  local found, number, most, at = {}, 0, limit + 1, 0
  local score = ARGV[2] ~= '' and ARGV[3]
  local missing_in = math.ceil(1.1 * most * size / count) + 2
  repeat
    -- Either is enough in most cases: to look at so many items, or to read all that are unread.
    if are_few(count, missing_in) then
      local rows, others = few_unread(key, of_unread, score, ARGV[4])
      older = older or (upward and others)
      return rows, ''
    end
    if score and steps == 0 then
      local newer, stands = rank(key, ARGV[3], ARGV[4])
      at = newer + (upward and 0 or stands)
      if upward then older = size > newer and has_unread_from(key, of_unread, newer) end
    end
    local block = math.min(1000, missing_in)
    local first, last = at, at + block - 1
    if upward then first, last = math.max(0, at - block), at - 1 end
    local ids = last < first and {} or redis.call('ZREVRANGE', key, first, last)
    if #ids == 0 then break end
    local marks, before = unread_marks(of_unread, ids), number
    local from, to, step = 1, #ids, 1
    if upward then from, to, step = #ids, 1, -1 end
    for i = from, to, step do
      if marks[i] == 1 then
        number = number + 1
        found[number] = ids[i]
        if number == most then return rows_of(key, found), '' end
      end
    end
    steps, at = steps + #ids, upward and first or first + #ids
    if steps > MOST_STEPS then
      older = older or not upward
      return rows_of(key, found), number == before and redis.call('ZSCORE', key, ids[to]) .. ' ' .. ids[to] or ''
    end
    missing_in = math.ceil(1.5 * (most - number) * (steps + 1) / (number + 1))
  until false
  return rows_of(key, found), ''
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

if one then
  local rows, resume = unread_rows()
  older = older or (not upward and #rows > 2 * limit)
  if upward then rows = turned(rows, math.min(#rows, 2 * limit)) end
  return reply_of(one, rows, ids_of(rows, limit), nil, '', resume)
end
local uids = redis.call('ZRANGE', KEYS[1], 0, -1)
if #uids == 0 then return { 'channel' } end
local posts_before, posts_behind = string.match(ARGV[7], '^(.-)%*(.*)$')
local unread_before, unread_behind = string.match(ARGV[8], '^(.-)%*(.*)$')

-- The positions of ids that are neither of hidden feeds, nor read if only unread ones are wanted.
local function shown(stream, ids)
  if #ids == 0 then return ids end
  local kept = {}
  local hidden = stream.apart and redis.call('SMISMEMBER', stream.apart, unpack(ids))
  local marks = stream.unread and unread_marks(stream.unread, ids)
  for i = 1, #ids do
    if (not hidden or hidden[i] == 0) and (not marks or marks[i] == 1) then kept[#kept + 1] = i end
  end
  return kept
end

-- The items of the next block, nearest first, as ids or with scores as rows.
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

-- The items of a channel behind a place, beyond its newest unread ones if only unread ones are wanted; nil if there are
-- none.
local function walk(stream, posts, count, score, id)
  local unread = only_unread and unread_before .. stream.uid .. unread_behind
  stream.key, stream.next, stream.newest, stream.last, stream.skips = posts, 0, nil, nil, false
  stream.seen, stream.kept = 0, 0
  if only_unread then
    if count == 0 then return nil end
    stream.count = count
    stream.size, stream.wanted = redis.call('ZCARD', posts), math.ceil(0.6 * stream.block)
    if are_few(stream.count, stream.wanted * stream.size / stream.count) then
      local others
      stream.rows, others = few_unread(posts, unread, score, id, stream.apart)
      stream.is_whole = true
      if upward and others then older = true end
      return stream
    end
    stream.unread = stream.count < stream.size and unread
    stream.block = math.min(6 * stream.block, math.ceil(1.1 * stream.wanted * stream.size / stream.count))
  end
  stream.filters = stream.apart or stream.unread
  if score then
    local newer, stands = rank(posts, score, id)
    stream.next = newer + (upward and 0 or stands)
    if upward and redis.call('ZCARD', posts) > newer then
      older = older or not stream.unread or has_unread_from(posts, stream.unread, newer)
    end
  end
  return stream
end

-- A channel whose newest unread items end here goes on with its others; nil if there are none.
local function walk_on(stream)
  if upward then return nil end
  local known, place = (stream.rows or ARGV[2] ~= '') and redis.call('ZCARD', stream.newest) or 0, {}
  local count = count_unread(unread_before .. stream.uid .. unread_behind)
  if known == count then return nil end
  if known < ENOUGH then wanted = wanted .. stream.uid .. ' ' end
  if stream.rows then
    place = redis.call('ZRANGE', stream.newest, 0, 0, 'WITHSCORES')
  elseif ARGV[2] ~= '' then
    place = { ARGV[4], ARGV[3] }
  end
  return walk(stream, posts_before .. stream.uid .. posts_behind, count, place[2], place[1])
end

local function refill(stream)
  stream.at = 1
  stream.next = stream.next or redis.call('ZREVRANK', stream.key, stream.rows[#stream.rows - 1]) + 1
  if stream.is_whole then
    stream.rows = {}
    return
  end
  local block = stream.block
  if not stream.filters then
    stream.block = math.min(limit + 1, 2 * block + 1)
    local rows = examined(stream, block, 'WITHSCORES')
    if #rows == 0 and stream.newest and walk_on(stream) then
      if not stream.is_whole then refill(stream) end
    else
      stream.rows = rows
    end
    return
  end
  if stream.last and stream.unread then
    -- The first block had too few: as many as one probably looks at for those that are wanted, or all unread ones.
    block = math.ceil(stream.wanted * (stream.seen + 1) / (stream.kept + 1))
    if are_few(stream.count, block) then
      local score = redis.call('ZSCORE', stream.key, stream.last)
      stream.rows = few_unread(stream.key, stream.unread, score, stream.last, stream.apart)
      stream.is_whole, stream.skips = true, false
      return
    end
  end
  block = math.min(1000, block)
  stream.block = 2 * block + 1
  -- If most items are shown, or they are few, their scores are read with them.
  local has_scores = not stream.unread or block <= 5 or 2 * stream.count > stream.size
  local rows = has_scores and examined(stream, block, 'WITHSCORES')
  local ids = rows and ids_of(rows, block) or examined(stream, block)
  if #ids == 0 and stream.newest and walk_on(stream) then
    if not stream.is_whole then refill(stream) end
    return
  end
  local kept = shown(stream, ids)
  stream.last = ids[#ids]
  stream.seen, stream.kept, steps = stream.seen + #ids, stream.kept + #kept, steps + #ids - #kept
  stream.skips = #kept == 0 and #ids > 0
  if stream.skips then kept[1] = #ids end
  for i = 1, #kept do
    ids[i] = ids[kept[i]]
    if rows then rows[2 * i - 1], rows[2 * i] = ids[i], rows[2 * kept[i]] end
  end
  for i = #ids, #kept + 1, -1 do ids[i] = nil end
  for i = rows and #rows or 0, 2 * #kept + 1, -1 do rows[i] = nil end
  stream.rows = rows or rows_of(stream.key, ids)
end

-- Reads the first of a channel's newest unread items that are older than the cursor, without their position in the
-- sorted set, which takes as long as several of them to find; false if the position is needed.
local function read_from(stream, score, id)
  local most = stream.block + 1
  local rows, at = redis.call('ZREVRANGEBYSCORE', stream.newest, score, '-inf', 'WITHSCORES', 'LIMIT', 0, most), 1
  local place = tonumber(score)
  while rows[at] and not precedes(place, id, tonumber(rows[at + 1]), rows[at]) do at = at + 2 end
  if rows[at] then
    stream.rows, stream.at, stream.next = rows, at, nil
  else
    stream.next = #rows < 2 * most and LAST
  end
  return stream.next ~= false
end

-- A channel from the cursor on, of which `block` items are probably wanted; nil if none is. `hides`: without those of
-- hidden feeds.
local function begin(name, posts, block, hides)
  local stream = {
    uid = name, key = posts, next = 0, at = 1, block = block, id = '', text = '', score = 0, seen = 0, kept = 0,
  }
  if hides then
    local apart = key_of(ARGV[9], name)
    stream.apart = redis.call('EXISTS', apart) == 1 and apart
  end
  local score = ARGV[2] ~= '' and ARGV[3]
  if not only_unread then return walk(stream, posts, nil, score, ARGV[4]) end
  local newest, newer, stands = unread_before .. name .. unread_behind .. ':newest', 0, 0
  stream.key, stream.newest, stream.filters = newest, newest, stream.apart
  if score and not upward and not stream.apart and read_from(stream, score, ARGV[4]) then return stream end
  if score then newer, stands = rank(newest, score, ARGV[4]) end
  stream.next = newer + stands
  if upward then
    local known = redis.call('ZCARD', newest)
    older = older or newer < known
    stream.next = newer
    local count = newer < known and known or count_unread(unread_before .. name .. unread_behind)
    if known ~= count then return walk(stream, posts, count, score, ARGV[4]) end
  end
  return stream
end

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
  if not stream.rows or stream.at > #stream.rows then refill(stream) end
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
local function may_have(name, posts, bound)
  local unread = only_unread and unread_before .. name .. unread_behind
  local first = unread and redis.call('ZREVRANGE', unread .. ':newest', 0, 0, 'WITHSCORES')
  if first and first[1] then return tonumber(first[2]) >= tonumber(bound) end
  local newer = redis.call('ZCOUNT', posts, bound, '+inf')
  if newer == 0 or not only_unread then return newer > 0 end
  if newer > math.min(100, 2 * count_unread(unread)) then return true end
  local marks = unread_marks(unread, redis.call('ZREVRANGE', posts, 0, newer - 1))
  for i = 1, newer do
    if marks[i] == 1 then return true end
  end
  return false
end

local block = math.min(limit + 1, math.max(1, math.ceil(2 * limit / #uids)))
local bound, known = nil, limit + 1
for i, name in ipairs(uids) do
  if i > known and ARGV[2] == '' then
    bound, known = needed(), 2 * known
  end
  local posts = posts_before .. name .. posts_behind
  if not bound or may_have(name, posts, bound) then
    local stream = begin(name, posts, block, user[3])
    if stream then push(stream) end
  end
end

-- Takes the next item of that channel: notes that the channel's state of it is to be asked, and advances the channel.
local taken = {}
local function take(row, stream)
  if not only_unread then
    if not stream.taken then
      stream.taken = {}
      taken[#taken + 1] = stream
    end
    stream.taken[#stream.taken + 1] = row
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
    local also = first.also or {}
    local home = first.uid == 'saved' and also[1] or first -- where it was saved from, if it is still there
    local row = { id = first.id, text = first.text, uid = home.uid, open = only_unread }
    take(row, first)
    for _, stream in ipairs(also) do take(row, stream) end
    steps = steps + 1 + #also
    picked[#picked + 1], skipped = row, ''
  end
end

for _, stream in ipairs(taken) do
  local ids, rows = {}, stream.taken
  for i = 1, #rows do ids[i] = rows[i].id end
  local marks = unread_marks(unread_before .. stream.uid .. unread_behind, ids)
  for i = 1, #rows do
    if marks[i] == 1 and not rows[i].open then rows[i].uid, rows[i].open = stream.uid, true end
  end
end

local rows, ids, marks, homes, names, named = {}, {}, {}, {}, {}, {}
for i = 1, #picked do
  local row = picked[upward and #picked + 1 - i or i]
  ids[i], rows[2 * i - 1], rows[2 * i], marks[i], homes[i] = row.id, row.id, row.text, row.open and 1 or 0, row.uid
  if not named[row.uid] then
    named[row.uid] = true
    names[#names + 1] = row.uid
    names[#names + 1] = redis.call('HGET', key_of(ARGV[6], row.uid), 'name')
  end
end
return reply_of(names, rows, ids, not only_unread and marks, table.concat(homes, ' '), resume)
