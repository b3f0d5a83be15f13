-- The unread items of a channel: a set of ids, which are whole numbers, so that the engine needs four bytes for each, or
-- eight. Their times are those of `posts`. Data of layout 12 has a sorted set with these times, until
-- timelines/repacking.py has visited the channel: there the command for sets fails, and the other one is sent.
local function of_either(set, sorted, key, ...)
  local found = redis.pcall(set, key, ...)
  if type(found) ~= 'table' or not found.err then return found, false end
  if not string.find(found.err, 'WRONGTYPE', 1, true) then return redis.call(set, key, ...), false end
  return redis.call(sorted, key, ...), true
end

local function count_unread(key) return (of_either('SCARD', 'ZCARD', key)) end
local function is_unread(key, id)
  local found, is_old = of_either('SISMEMBER', 'ZSCORE', key, id)
  return found == 1 or (is_old and found ~= false)
end

-- are_unread(key, ids): true or false for each of at most 1,000 ids.
local function are_unread(key, ids)
  local found, is_old = of_either('SMISMEMBER', 'ZMSCORE', key, unpack(ids))
  for i = 1, #ids do found[i] = found[i] == 1 or (is_old and found[i] ~= false) end
  return found
end

-- unread_ids(key): all of them, in no certain order.
local function unread_ids(key)
  local found = redis.pcall('SMEMBERS', key)
  return found.err and redis.call('ZRANGE', key, 0, -1) or found
end

-- add_unread(key, rows): {score, id, score, id, …} of at most 1,000. drop_unread(key, id, …): how many were unread.
local function add_unread(key, rows)
  local ids = {}
  for i = 2, #rows, 2 do ids[i / 2] = rows[i] end
  local added = redis.pcall('SADD', key, unpack(ids))
  if type(added) ~= 'table' then return end
  if string.find(added.err, 'WRONGTYPE', 1, true) then
    redis.call('ZADD', key, unpack(rows))
  else
    redis.call('SADD', key, unpack(ids))
  end
end
local function drop_unread(key, ...) return (of_either('SREM', 'ZREM', key, ...)) end
