-- Changes of a channel's items: they arrive, leave, or change their state, by the rules of their user. Needs the parts
-- gone, unread, readings, arrivals and events.

-- sets_at(first, uid): a channel by its keys, which begin at KEYS[first]: posts, unread, read, hidden, hidden-read,
-- gone.
local function sets_at(first, uid)
  local posts, unread, read, hidden, hidden_read, gone = unpack(KEYS, first, first + 5)
  return { uid = uid, posts = posts, unread = unread, read = read, hidden = hidden, hidden_read = hidden_read, gone = gone }
end

-- show_state(sets, id, score, read_at): an item in posts becomes read since that Unix time, or unread without one.
local function show_state(sets, id, score, read_at)
  if read_at then
    note_readings(sets.read, read_at, { id })
  else
    add_unread(sets.unread, { score, id })
  end
end

-- enter(sets, id, score, read_at, is_muted): an item new to the channel is shown, or hidden if it is
-- muted, with its read state.
local function enter(sets, id, score, read_at, is_muted)
  if is_muted then
    redis.call('ZADD', sets.hidden, score, id)
    if read_at then note_readings(sets.hidden_read, read_at, { id }) end
  else
    redis.call('ZADD', sets.posts, score, id)
    arrives(id)
    show_state(sets, id, score, read_at)
    if read_at then changed(sets) else came_unread(sets, id) end
  end
end

-- take_out(sets, ids): the items, at most 1,000, are neither shown nor hidden in the channel, and have no read state
-- there.
local function take_out(sets, ids)
  if #ids == 0 then return end
  for _, id in ipairs(ids) do
    if redis.call('ZREM', sets.posts, id) == 1 then
      departs(id)
      changed(sets)
    end
  end
  drop_unread(sets.unread, unpack(ids))
  forget_readings(sets.read, ids)
  redis.call('ZREM', sets.hidden, unpack(ids))
  forget_readings(sets.hidden_read, ids)
end

-- leave(sets, ids, reason): the items are taken out, and `gone` records why.
local function leave(sets, ids, reason)
  take_out(sets, ids)
  for _, id in ipairs(ids) do remember(sets, id, reason) end
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

-- some(keys): the existing keys, so that a user without rules costs only one EXISTS.
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

-- note_all(first, now): the last step of every script that shows or removes items of a user, with its keys from
-- KEYS[first] on: arrivals, arrivals:more, events. Another user's changes may follow.
local function note_all(first, now)
  note_arrivals(KEYS[first], KEYS[first + 1], now)
  note_changes(KEYS[first + 2])
  for i = #named, 1, -1 do
    local id = named[i]
    balance[id], came[id], named[i] = nil, nil, nil
  end
  if #changed_channels > 0 then changed_channels, came_to = {}, {} end
end
