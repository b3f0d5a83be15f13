-- When a host may be asked next: its earliest feed's time, but not before its spacing (`free`) and hold are over.
-- '' where it has no feeds. Redis can't print a time without losing digits, so this does.
local function host_next(due_key, host_key)
  local first = redis.call('ZRANGE', due_key, 0, 0, 'WITHSCORES')
  if not first[2] then return '' end
  local head = redis.call('HMGET', host_key, 'free', 'hold')
  local at = math.max(tonumber(first[2]), tonumber(head[1] or 0) or 0, tonumber(head[2] or 0) or 0)
  return string.format('%.6f', at)
end
