-- show_state(sets, id, score, read_at): what stands in posts is read since that Unix time, or unread where there is none.
local function show_state(sets, id, score, read_at)
  if read_at then
    redis.call('ZADD', sets.read, read_at, id)
  else
    redis.call('ZADD', sets.unread, score, id)
  end
end

-- enter(sets, id, score, read_at, is_muted): an item that stands nowhere in the channel is shown, or hidden where it is
-- muted, with its read state.
local function enter(sets, id, score, read_at, is_muted)
  if is_muted then
    redis.call('ZADD', sets.hidden, score, id)
    if read_at then redis.call('ZADD', sets.hidden_read, read_at, id) end
  else
    redis.call('ZADD', sets.posts, score, id)
    arrives(id)
    show_state(sets, id, score, read_at)
    if read_at then changed(sets) else came_unread(sets, id) end
  end
end
