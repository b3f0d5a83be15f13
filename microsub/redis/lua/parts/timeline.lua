-- Changes of a channel's items: they arrive, leave, or change their state, by the rules of their user. With the order
-- in which they came to the user, and the entries of the user's event streams.

-- sets_at(first, uid): a channel by its keys, which begin at KEYS[first]: posts, unread, read, hidden, hidden-read,
-- gone.
local function sets_at(first, uid)
  local posts, unread, read, hidden, hidden_read, gone = unpack(KEYS, first, first + 5)
  return { uid = uid, posts = posts, unread = unread, read = read, hidden = hidden, hidden_read = hidden_read, gone = gone }
end

-- The order of arrival: the items that a user's channels show, removed channels included, each once.
--
-- arrives(id), departs(id): one channel shows the item from now on, or no longer. note_arrivals(arrivals, more, now)
-- writes the result: an item that no channel showed before gets the next place, one that no channel shows any more
-- loses its place, and one that moved between channels keeps it. A place is a Unix time in microseconds, but always
-- after all earlier places, whatever the clock says. Of several items, those named last come first, since scripts name
-- the newest first.
-- An item that had its place when a channel began to show it gets a second one from the same counter, in
-- `arrivals:again`: so what came into a channel is found behind a place, though it came to the user long before.
local balance, named, came = {}, {}, {}

local function count(id, by)
  if not balance[id] then
    balance[id] = 0
    named[#named + 1] = id
  end
  balance[id] = balance[id] + by
end
local function arrives(id)
  count(id, 1)
  came[id] = true
end
local function departs(id) count(id, -1) end

-- The part of a list from a place on that one command is given.
local function slice(list, from)
  local part = {}
  for i = from, math.min(#list, from + 999) do part[#part + 1] = list[i] end
  return part
end

-- Gives ids the next places in a sorted set, 'NX' those that have none there, 'GT' all; how many are new in it, and the
-- first of the places.
local function write_places(set, how, more, now, ids)
  local place = tonumber(redis.call('HGET', more, 'last') or 0)
  local first = math.max(math.floor(tonumber(now) * 1000000), place + 1)
  local pairs_ = {}
  for i, id in ipairs(ids) do
    pairs_[2 * i - 1] = string.format('%.0f', first + i - 1)
    pairs_[2 * i] = id
  end
  redis.call('HSET', more, 'last', pairs_[#pairs_ - 1])
  return redis.call('ZADD', set, how, unpack(pairs_)), first
end

local function give_places(arrivals, more, now, ids)
  local new, first = write_places(arrivals, 'NX', more, now, ids)
  local places = new < #ids and redis.call('ZMSCORE', arrivals, unpack(ids))
  for i, id in ipairs(ids) do
    local known = places and tonumber(places[i]) < first
    local further = known and balance[id] or balance[id] - 1
    if further > 0 then redis.call('HINCRBY', more, id, further) end
    if not known then came[id] = nil end
  end
end

local function take_places(arrivals, more, ids)
  local counts = redis.call('HMGET', more, unpack(ids))
  local out = {}
  for i, id in ipairs(ids) do
    local left = (counts[i] or 0) + balance[id]
    if left < 0 then out[#out + 1] = id end
    if counts[i] then
      if left > 0 then redis.call('HSET', more, id, left) else redis.call('HDEL', more, id) end
    end
  end
  if #out > 0 then
    redis.call('ZREM', arrivals, unpack(out))
    redis.call('ZREM', arrivals .. ':again', unpack(out))
  end
end

local function note_arrivals(arrivals, more, now)
  local coming, going = {}, {}
  for i = #named, 1, -1 do
    local id = named[i]
    if balance[id] > 0 then coming[#coming + 1] = id elseif balance[id] < 0 then going[#going + 1] = id end
  end
  for from = 1, #coming, 1000 do give_places(arrivals, more, now, slice(coming, from)) end
  for from = 1, #going, 1000 do take_places(arrivals, more, slice(going, from)) end
  local again = {}
  for i = #named, 1, -1 do
    if came[named[i]] then again[#again + 1] = named[i] end
  end
  for from = 1, #again, 1000 do write_places(arrivals .. ':again', 'GT', more, now, slice(again, from)) end
end

-- Entries of a user's event streams (timelines/sync/live_events.py), written by the step that changes it: so an event
-- is stored exactly if its change is.
--
-- changed(sets): items of that channel came, left, or changed their state; came_unread(sets, id): this one came as
-- unread.
-- note_changes(events) writes one entry for each such channel, with the items that came as unread, the newest first.
-- note_channel(events, what, uid, …) writes one for a channel itself. How much is unread is asked by who reads the
-- entry, so it is true at that time, and costs nothing here. The stream is there only while an app listens, or did so
-- in the last hours (lua/events_read.lua): all others pay for one EXISTS.
local KEPT, MOST_CAME = 500, 100
local changed_channels, came_to = {}, {}

local function changed(sets)
  if came_to[sets] then return end
  came_to[sets] = {}
  changed_channels[#changed_channels + 1] = sets
end

local function came_unread(sets, id)
  changed(sets)
  local ids = came_to[sets]
  if #ids < MOST_CAME then ids[#ids + 1] = id end
end

local function note_channel(events, what, uid, ...)
  redis.call('XADD', events, 'NOMKSTREAM', 'MAXLEN', '~', KEPT, '*', 'event', what, 'channel', uid, ...)
end

local function note_changes(events)
  if #changed_channels == 0 or redis.call('EXISTS', events) == 0 then return end
  for _, sets in ipairs(changed_channels) do
    note_channel(events, 'items', sets.uid, 'came', table.concat(came_to[sets], ' '))
  end
end

-- show_state(sets, id, score, read_at): an item in posts becomes read since that Unix time, or unread without one.
local function show_state(sets, id, score, read_at)
  if read_at then
    redis.call('ZADD', sets.read, read_at, id)
  else
    redis.call('ZADD', sets.unread, score, id)
  end
end

-- enter(sets, id, score, read_at, is_muted): an item new to the channel is shown, or hidden if it is
-- muted, with its read state.
local function enter(sets, id, score, read_at, is_muted)
  if is_muted then
    redis.call('ZADD', sets.hidden, score, id)
    if read_at then redis.call('ZADD', sets.hidden_read, read_at, id) end
  else
    redis.call('ZADD', sets.posts, score, id)
    arrives(id)
    show_state(sets, id, score, read_at)
    if read_at then changed(sets) else came_unread(sets, id) end
  end
end

-- gone_at(seconds, reason): the score of `gone`: the time in whole seconds and the reason in sixteenths, both exact in
-- a double and in four decimals.
local function gone_at(seconds, reason)
  return string.format('%.4f', seconds + reason / 16)
end

-- take_out(sets, id): the item is neither shown nor hidden in the channel, and has no read state there.
local function take_out(sets, id)
  if redis.call('ZREM', sets.posts, id) == 1 then
    departs(id)
    changed(sets)
  end
  redis.call('ZREM', sets.unread, id)
  redis.call('ZREM', sets.read, id)
  redis.call('ZREM', sets.hidden, id)
  redis.call('ZREM', sets.hidden_read, id)
end

-- leave(sets, id, seconds, reason): the item is taken out, and `gone` records when and why.
local function leave(sets, id, seconds, reason)
  take_out(sets, id)
  redis.call('ZADD', sets.gone, gone_at(seconds, reason), id)
end

-- reason_of(score): the reason that a score of `gone` carries, as a number.
local function reason_of(score)
  local at = tonumber(score)
  return (at - math.floor(at)) * 16
end

-- urls_of(lines): an item's URLs, which scripts get one per line.
local function urls_of(lines)
  local urls = {}
  for url in string.gmatch(lines, '[^\n]+') do urls[#urls + 1] = url end
  return urls
end

-- ruled(hashes_of_urls, urls): whether any of the rule hashes holds any of the item's URLs (author's and sources').
local function ruled(keys, urls)
  if #urls == 0 then return false end
  for _, key in ipairs(keys) do
    for _, found in ipairs(redis.call('HMGET', key, unpack(urls))) do
      if found then return true end
    end
  end
  return false
end

-- some(keys): the existing keys, so that a reader without rules costs only one EXISTS.
local function some(keys)
  local there = {}
  if redis.call('EXISTS', unpack(keys)) == 0 then return there end
  for _, key in ipairs(keys) do
    if redis.call('EXISTS', key) == 1 then there[#there + 1] = key end
  end
  return there
end

-- rules_at(first): the existing mutes and blocks, of KEYS[first..first + 3]: muted (channel, global), blocked.
local function rules_at(first)
  return some({ KEYS[first], KEYS[first + 1] }), some({ KEYS[first + 2], KEYS[first + 3] })
end

-- note_all(first, now): the last step of every script that shows items or takes them out, with its keys from
-- KEYS[first] on: arrivals, arrivals:more, events.
local function note_all(first, now)
  note_arrivals(KEYS[first], KEYS[first + 1], now)
  note_changes(KEYS[first + 2])
end
