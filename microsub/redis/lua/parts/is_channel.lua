-- is_channel(key): whether a channel lies there that wasn't removed.
local function is_channel(key)
  local head = redis.call('HMGET', key, 'name', 'removed')
  return head[1] and not head[2]
end
