-- Changes of a channel's unread items, in either form of unread.lua. A change of the older form makes what unread_pack.lua
-- has copied so far useless.
--
-- The newest ones are in a sorted set as well, in the order of their times, if a page of unread items has asked for it
-- (unread_newest.lua), for thirty days after the last of them that was read. It has all that aren't older than its
-- oldest, so they are added only from there on.
--
-- add_unread(key, rows): {score, id, score, id, …} of at most 1,000. drop_unread(key, id, …): how many were unread.
-- newest_of(key): the key of the newest ones. has_no_newest(key): somebody has looked, and it doesn't exist.
local MOST_NEWEST, MOST_CHANGED, NEWEST_SECONDS = 128, 64, 2592000
local without_newest = {}

local function newest_of(key) return key .. ':newest' end
local function has_no_newest(key) without_newest[key] = true end

-- Whether (one score, one id) is at least as new as the other.
local function is_from(score, id, first_score, first_id)
  return score > first_score or (score == first_score and id >= first_id)
end

local function add_newest(newest, rows)
  local excess = redis.call('ZCARD', newest) + #rows / 2 - MOST_NEWEST
  if #rows > 2 * MOST_CHANGED then
    redis.call('UNLINK', newest)
    return
  end
  if excess > 0 then redis.call('ZREMRANGEBYRANK', newest, 0, excess - 1) end
  local first = redis.call('ZRANGE', newest, 0, 0, 'WITHSCORES')
  local score, entering = tonumber(first[2]), {}
  for i = 1, #rows, 2 do
    if is_from(tonumber(rows[i]), rows[i + 1], score, first[1]) then
      entering[#entering + 1] = rows[i]
      entering[#entering + 1] = rows[i + 1]
    end
  end
  if #entering > 0 then redis.call('ZADD', newest, unpack(entering)) end
end

local function add_unread(key, rows)
  local ids = { rows[2] }
  for i = 4, #rows, 2 do ids[i / 2] = rows[i] end
  if not without_newest[key] and redis.call('EXISTS', newest_of(key)) == 1 then add_newest(newest_of(key), rows) end
  local added = redis.pcall('SADD', key, unpack(ids))
  if type(added) ~= 'table' then return end
  if string.find(added.err, 'WRONGTYPE', 1, true) then
    redis.call('ZADD', key, unpack(rows))
    redis.call('UNLINK', key .. ':packing')
  else
    redis.call('SADD', key, unpack(ids))
  end
end

local function drop_newest(newest, ids)
  if #ids > MOST_CHANGED then
    redis.call('UNLINK', newest)
  elseif redis.call('ZREM', newest, unpack(ids)) > 0 then
    redis.call('EXPIRE', newest, NEWEST_SECONDS)
  end
end

local function drop_unread(key, ...)
  if not without_newest[key] then drop_newest(newest_of(key), { ... }) end
  local found = redis.pcall('SREM', key, ...)
  if type(found) ~= 'table' then return found end
  redis.call('UNLINK', key .. ':packing')
  return redis.call('ZREM', key, ...)
end
