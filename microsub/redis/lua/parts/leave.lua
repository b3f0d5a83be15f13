-- leave(sets, id, seconds, reason): the item is in none of the channel's sets any more but `gone`, which keeps the time
-- in whole seconds and the reason in sixteenths, both exact in a double and in four decimals.
local function gone_at(seconds, reason)
  return string.format('%.4f', seconds + reason / 16)
end

local function leave(sets, id, seconds, reason)
  redis.call('ZREM', sets.posts, id)
  redis.call('ZREM', sets.unread, id)
  redis.call('ZREM', sets.read, id)
  redis.call('ZREM', sets.hidden, id)
  redis.call('ZREM', sets.hidden_read, id)
  redis.call('ZADD', sets.gone, gone_at(seconds, reason), id)
end

-- reason_of(score): the reason that a score of `gone` carries, as a number.
local function reason_of(score)
  local at = tonumber(score)
  return (at - math.floor(at)) * 16
end
