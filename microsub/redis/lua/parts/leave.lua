-- gone_at(seconds, reason): the score of `gone`: the time in whole seconds and the reason in sixteenths, both exact in a
-- double and in four decimals.
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

-- leave(sets, id, seconds, reason): the item is taken out, and `gone` keeps when and why.
local function leave(sets, id, seconds, reason)
  take_out(sets, id)
  redis.call('ZADD', sets.gone, gone_at(seconds, reason), id)
end

-- reason_of(score): the reason that a score of `gone` carries, as a number.
local function reason_of(score)
  local at = tonumber(score)
  return (at - math.floor(at)) * 16
end
