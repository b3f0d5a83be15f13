-- is_active(user): whether that user exists and isn't disabled. A request checked earlier can arrive after the removal.
local function is_active(user)
  local found = redis.call('HMGET', user, 'me', 'disabled')
  return found[1] and not found[2]
end

-- is_channel(key): whether the key holds a channel that wasn't removed.
local function is_channel(key)
  local head = redis.call('HMGET', key, 'name', 'removed')
  return head[1] and not head[2]
end

-- scope_of(token, now): the scopes of a token; nil if it is unknown or has expired.
local function scope_of(token, now)
  local held = redis.call('HMGET', token, 'scope', 'expires')
  if not held[1] or (held[2] and tonumber(held[2]) <= tonumber(now)) then return nil end
  return held[1]
end
