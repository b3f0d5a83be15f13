-- is_active(user): whether that user is there and not disabled. A request that was let in before may come after the removal.
local function is_active(user)
  local found = redis.call('HMGET', user, 'me', 'disabled')
  return found[1] and not found[2]
end
