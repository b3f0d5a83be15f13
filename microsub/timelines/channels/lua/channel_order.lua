-- Permutes the named channels among their positions; the others stay where they are, as do notifications and saved.
--
-- Atomic: no other change of the order comes between reading and writing it.
--
-- KEYS  1 channels  2 live_events
-- ARGV  1.. uids: in the requested order, each once, without notifications and saved
-- reply '' or the first uid that is unknown (then nothing changes)
-- include: events
local wished, moved = {}, nil
for _, uid in ipairs(ARGV) do
  if not redis.call('ZSCORE', KEYS[1], uid) then return uid end
  wished[uid] = true
end
local next_one = 1
for position, uid in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if wished[uid] then
    if uid ~= ARGV[next_one] then moved = moved or ARGV[next_one] end
    uid = ARGV[next_one]
    next_one = next_one + 1
  end
  if uid ~= 'saved' then redis.call('ZADD', KEYS[1], position - 1, uid) end
end
if moved then note_channel(KEYS[2], 'update channel', moved, 'order', 1) end
return ''
