-- Changes of a channel's unread items, in either form of unread.lua. A change of the older form makes what unread_pack.lua
-- has copied so far useless.
--
-- add_unread(key, rows): {score, id, score, id, …} of at most 1,000. drop_unread(key, id, …): how many were unread.
local function add_unread(key, rows)
  local ids = {}
  for i = 2, #rows, 2 do ids[i / 2] = rows[i] end
  local added = redis.pcall('SADD', key, unpack(ids))
  if type(added) ~= 'table' then return end
  if string.find(added.err, 'WRONGTYPE', 1, true) then
    redis.call('ZADD', key, unpack(rows))
    redis.call('UNLINK', key .. ':packing')
  else
    redis.call('SADD', key, unpack(ids))
  end
end
local function drop_unread(key, ...)
  local found = redis.pcall('SREM', key, ...)
  if type(found) ~= 'table' then return found end
  redis.call('UNLINK', key .. ':packing')
  return redis.call('ZREM', key, ...)
end
