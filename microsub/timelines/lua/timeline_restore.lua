-- Puts items back into a timeline with their former state, and keeps other ids out.
--
-- Atomic: each item's state and the current rules. Items that were read become read, and no read item becomes unread,
-- unless a move is taken back.
-- Items that have left the timeline stay out, unless they may return, or moved to another channel and their user takes
-- the move back; items in the timeline aren't removed.
--
-- KEYS  1 channel  2-14 timeline: posts, unread, read, hidden, hidden-read, gone, muted (channel, global), blocked
--       (channel, global), arrivals, events
-- ARGV  1 now  2 back: number of items to put back  3 uid  4 moved: 'back' if items that moved return  5.. items: per item, newest first: id, score, time of
--       reading or '', lines of URLs (author, sources); then per id to keep out: id, reason
-- reply number of items added, or -1: no such channel
-- include: active
-- include: reasons
-- include: gone
-- include: unread_changes
-- include: readings
-- include: reading_changes
-- include: arrivals
-- include: events
-- include: timeline
if not is_channel(KEYS[1]) then return -1 end
local sets = sets_at(2, ARGV[3])
local mutes, blocks = rules_at(8)

local function stands(id)
  return redis.call('ZSCORE', sets.posts, id) or redis.call('ZSCORE', sets.hidden, id)
end

local function note_read(id, read_at)
  if drop_unread(sets.unread, id) == 1 then
    note_readings(sets.read, read_at, { id })
    changed(sets)
  elseif redis.call('ZSCORE', sets.hidden, id) then
    note_readings(sets.hidden_read, read_at, { id })
  end
end

-- An item that has moved back, read in a channel that it had already been in, is unread again.
local function note_unread(id, score)
  if forget_readings(sets.read, { id }) == 1 then
    add_unread(sets.unread, { score, id })
    changed(sets)
  else
    forget_readings(sets.hidden_read, { id })
  end
end

local function may_return(id)
  local left = left_as(sets, id)
  return not left or MAY_RETURN[left] or (left == MOVED and ARGV[4] == 'back')
end

local count, at = 0, 5
for _ = 1, tonumber(ARGV[2]) do
  local id, score, read_at, urls = ARGV[at], ARGV[at + 1], ARGV[at + 2], urls_of(ARGV[at + 3])
  at = at + 4
  if read_at == '' then read_at = nil end
  if stands(id) then
    if read_at then
      note_read(id, read_at)
    elseif ARGV[4] == 'back' then
      note_unread(id, score)
    end
  elseif may_return(id) and not ruled(blocks, urls) then
    forget(sets, id)
    enter(sets, id, score, read_at, ruled(mutes, urls))
    count = count + 1
  end
end
while at <= #ARGV do
  local id, reason = ARGV[at], tonumber(ARGV[at + 1])
  at = at + 2
  if not stands(id) and not left_as(sets, id) then remember(sets, id, reason) end
end
note_all(12, ARGV[1])
return count
