-- The unread items of a channel: a set of ids, which are whole numbers, so that the engine needs four bytes for each, or
-- eight. Their times are those of `posts`. Data of layout 8 has a sorted set with these times, until
-- timelines/repacking.py has visited the channel: there the command for sets fails, and the other one is sent. These
-- functions only read, so that scripts with them count as reads; those that write are in unread_changes.lua.
local function count_unread(key)
  local found = redis.pcall('SCARD', key)
  return type(found) == 'table' and redis.call('ZCARD', key) or found
end
local function is_unread(key, id)
  local found = redis.pcall('SISMEMBER', key, id)
  if type(found) == 'table' then return redis.call('ZSCORE', key, id) ~= false end
  return found == 1
end

-- unread_marks(key, ids): 1 for each unread one of at most 1,000 ids, 0 for the others.
local function unread_marks(key, ids)
  local found = redis.pcall('SMISMEMBER', key, unpack(ids))
  if not found.err then return found end
  found = redis.call('ZMSCORE', key, unpack(ids))
  for i = 1, #ids do found[i] = found[i] and 1 or 0 end
  return found
end

-- are_unread(key, ids): the same as true or false.
local function are_unread(key, ids)
  local found = unread_marks(key, ids)
  for i = 1, #ids do found[i] = found[i] == 1 end
  return found
end

-- unread_ids(key): all of them, in no certain order.
local function unread_ids(key)
  local found = redis.pcall('SMEMBERS', key)
  return found.err and redis.call('ZRANGE', key, 0, -1) or found
end
