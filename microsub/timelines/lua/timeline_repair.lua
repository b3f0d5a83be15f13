-- Restores the invariants of one channel for the named ids.
--
-- Atomic per id: damage is checked again here, so an id that only looked corrupt, because the sets were read one after
-- the other, isn't touched. If in doubt, no item becomes unread: an id in `gone` has left, an id that is read and
-- unread is read, a shown id without a state is read.
--
-- KEYS  1 posts  2 unread  3 read  4 hidden  5 hidden_read  6 gone  7 arrivals  8 arrivals_more  9 live_events
-- ARGV  1 now: in whole seconds  2 uid  3.. ids
-- reply nothing
-- include: reasons
-- include: gone
-- include: unread
-- include: unread_changes
-- include: readings
-- include: reading_changes
-- include: arrivals
-- include: events
-- include: timeline
local sets = sets_at(1, ARGV[2])

local function at(set, id) return redis.call('ZSCORE', sets[set], id) end

-- The item is unread no longer, nor in these sets.
local function drop(id, ...)
  drop_unread(sets.unread, id)
  for _, set in ipairs({ ... }) do
    if set == 'hidden' then
      redis.call('ZREM', sets.hidden, id)
    else
      forget_readings(sets[set], { id })
    end
  end
end

local function shown(id, score)
  local read_at = reading_time(sets.read, id) or reading_time(sets.hidden_read, id) or (not is_unread(sets.unread, id) and ARGV[1])
  drop(id, 'hidden', 'hidden_read')
  show_state(sets, id, score, read_at)
end

for i = 3, #ARGV do
  local id = ARGV[i]
  changed(sets)
  local score = at('posts', id)
  if left_as(sets, id) then
    take_out(sets, { id })
  elseif score then
    shown(id, score)
  elseif at('hidden', id) then
    local read = reading_time(sets.read, id)
    if read then note_readings(sets.hidden_read, read, { id }) end
    drop(id, 'read')
  else
    drop(id, 'read', 'hidden_read')
  end
end
note_all(7, ARGV[1])
