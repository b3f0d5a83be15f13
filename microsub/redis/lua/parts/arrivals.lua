-- The order of arrival: the items that a user's channels show, removed channels included, each once. It is kept for
-- users who need it (sync/arrivals.py): those whose `arrivals:more` has the last place.
--
-- arrives(id), departs(id): one channel shows the item from now on, or no longer. note_arrivals(arrivals, more, now)
-- writes the result: an item that no channel showed before gets the next place, one that no channel shows any more
-- loses its place, and one that moved between channels keeps it. A place is a Unix time in microseconds, but always
-- after all earlier places, whatever the clock says. Of several items, those named last come first, since scripts name
-- the newest first.
-- An item that had its place when a channel began to show it gets a second one from the same counter, in
-- `arrivals:again`: so an item that was added to a channel is found after a place, even if the user got it long before.
local balance, named, came, last_place, clock = {}, {}, {}, nil, nil

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

-- The part of a list, from an index, that one command gets.
local function slice(list, from)
  if #list <= 1000 then return list end
  local part = {}
  for i = from, math.min(#list, from + 999) do part[#part + 1] = list[i] end
  return part
end

-- Gives ids the next places in a sorted set, 'NX' those that have none there, 'GT' all; returns how many are new in it,
-- and the first of the places.
local function write_places(set, how, more, now, ids)
  clock = clock or math.floor(tonumber(now) * 1000000)
  local first = math.max(clock, last_place + 1)
  local pairs_ = { first, ids[1] }
  for i = 2, #ids do
    pairs_[2 * i - 1] = first + i - 1
    pairs_[2 * i] = ids[i]
  end
  last_place = first + #ids - 1
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
  last_place = #named > 0 and tonumber(redis.call('HGET', more, 'last') or nil)
  if not last_place then return end
  local coming, going = {}, {}
  for i = #named, 1, -1 do
    local id = named[i]
    local kind = balance[id] > 0 and coming or balance[id] < 0 and going
    if kind then kind[#kind + 1] = id end
  end
  for from = 1, #coming, 1000 do give_places(arrivals, more, now, slice(coming, from)) end
  for from = 1, #going, 1000 do take_places(arrivals, more, slice(going, from)) end
  if not next(came) then return end
  local again = {}
  for i = #named, 1, -1 do
    if came[named[i]] then again[#again + 1] = named[i] end
  end
  for from = 1, #again, 1000 do write_places(arrivals .. ':again', 'GT', more, now, slice(again, from)) end
end
