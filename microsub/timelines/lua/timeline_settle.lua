-- Applies the current rules to items: blocked ones leave, muted ones are hidden, others are shown. Optionally first
-- shows items that are unread or read in the channel but neither shown nor hidden: its posts were lost.
--
-- Atomic per item: the step that moves an item checks its URLs against all rules. A rule is written before its first
-- batch, so simultaneous mutes and unmutes end as the rules say, whichever batch runs last. The read state moves along,
-- so the unread count stays correct. Unknown items are ignored.
--
-- KEYS  1-13 timeline: posts, unread, read, hidden, hidden-read, gone, muted (channel, global), blocked (channel,
--       global), arrivals, events
-- ARGV  1 now: in whole seconds  2 lost?: 'lost' to show lost items too, or ''  3 uid  4.. items: per item: id, score,
--       lines of URLs (author, sources)
-- reply 'id id …' that moved, or were shown again
-- include: reasons
-- include: gone
-- include: unread
-- include: unread_changes
-- include: readings
-- include: reading_changes
-- include: arrivals
-- include: events
-- include: timeline

local sets = sets_at(1, ARGV[3])
local mutes, blocks = rules_at(7)
local seconds = tonumber(ARGV[1])
local moved = {}

-- An item that is both unread and read is read.
local function show_lost(id, score)
  local read_at = reading_time(sets.read, id)
  local known = read_at or is_unread(sets.unread, id)
  if not known or left_as(sets, id) then return false end
  take_out(sets, { id })
  enter(sets, id, score, read_at, false)
  return score
end

local at = 4
while at <= #ARGV do
  local id, score, urls = ARGV[at], ARGV[at + 1], urls_of(ARGV[at + 2])
  at = at + 3
  local shown = redis.call('ZSCORE', sets.posts, id)
  local hidden = not shown and redis.call('ZSCORE', sets.hidden, id)
  local is_back = false
  if ARGV[2] == 'lost' and not shown and not hidden then
    shown = show_lost(id, score)
    is_back = shown
  end
  if shown or hidden then
    local is_blocked = ruled(blocks, urls)
    local is_muted = not is_blocked and ruled(mutes, urls)
    local changes = is_muted == not hidden
    if is_blocked then
      leave(sets, { id }, BLOCKED)
    elseif changes then
      local read_at = reading_time(shown and sets.read or sets.hidden_read, id)
      take_out(sets, { id })
      enter(sets, id, shown or hidden, read_at, is_muted)
    end
    if is_blocked or changes or is_back then moved[#moved + 1] = id end
  end
end
note_all(11, seconds)
return table.concat(moved, ' ')
