-- When a host may be asked next: its earliest feed's time, but not before its spacing (`free`) and hold are over.
-- '' where it has no feeds. A spacing or hold beyond `farthest` was written by a clock that was ahead, and counts for
-- nothing. Redis can't print a time without losing digits, so this does.
local function host_next(due_key, host_key, farthest)
  local first = redis.call('ZRANGE', due_key, 0, 0, 'WITHSCORES')
  if not first[2] then return '' end
  local at = tonumber(first[2])
  for _, text in ipairs(redis.call('HMGET', host_key, 'free', 'hold')) do
    local time = tonumber(text or 0) or 0
    if time <= farthest then at = math.max(at, time) end
  end
  return string.format('%.6f', at)
end
