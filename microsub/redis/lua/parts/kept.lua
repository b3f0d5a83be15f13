-- is_kept(more): whether that user's order of arrival is kept, and has all items (sync/arrivals.py).
local function is_kept(more)
  local found = redis.call('HMGET', more, 'last', 'building')
  return found[1] and not found[2]
end
