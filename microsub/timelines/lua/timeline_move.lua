-- Moves items into one channel, from all other channels of the user that show them, with their read state. Optionally
-- also from channels that hide them, as when the whole feed moves: the state of an item that no channel shows is that
-- of a channel that hides it. Or copies items, which then stay in the others. Or makes items that left a channel
-- permanently stay out of another one.
--
-- Atomic per item: an item that moves is always in exactly one channel, with one state. It is unread in the target if it was unread in
-- any channel that it leaves, as in `global`; an item that the target has keeps its state there. A removal from the
-- target is undone, because the user requests the item there; but a hidden item that was removed from the target just
-- leaves.
-- The target's rules apply: an item muted there becomes hidden, an item blocked there isn't moved. Nothing leaves
-- `saved`: an item that only `saved` shows is added to the target with its state there, and stays saved.
-- Atomic per call: if the number of items in the target is limited, all items of the call move, or none.
--
-- KEYS  1 channels  2-5 rules: muted (target, global), blocked (target, global)  6-8 shown: arrivals, events
-- ARGV  1-6 patterns: parts/channels.lua  7 target  8 now: in whole seconds  9 which: 'shown', 'all' for hidden ones
--       too, 'copy', or 'left'  10 most: limit of items that the target shows, 0 for none; with 'left' the uid of the
--       channel that they left  11.. items: per item: id, lines of URLs (author, sources); with 'left' ids
-- reply {number of items that moved, number of items that were examined, the first ones}; {-1, count}: the target shows
--       count items, so these are too many; -1: no such channel; with 'left' the number of items that stay out from now
--       on
-- include: channels
-- include: reasons
-- include: gone
-- include: unread_changes
-- include: readings
-- include: reading_changes
-- include: arrivals
-- include: events
-- include: timeline

local target_uid, seconds, which = ARGV[7], tonumber(ARGV[8]), ARGV[9]
if not redis.call('ZSCORE', KEYS[1], target_uid) then return -1 end
local target = sets_of(target_uid)
local function stands(id) return redis.call('ZSCORE', target.posts, id) or redis.call('ZSCORE', target.hidden, id) end

if which == 'left' then
  local source, count = sets_of(ARGV[10]), 0
  for i = 11, #ARGV do
    local id = ARGV[i]
    local left = left_as(source, id)
    if left and not MAY_RETURN[left] and not stands(id) and not left_as(target, id) then
      remember(target, id, left)
      count = count + 1
    end
  end
  return count
end

local others = {}
for _, uid in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if uid ~= target_uid and uid ~= 'saved' then others[#others + 1] = sets_of(uid) end
end
local saved = sets_of('saved')
local mutes, blocks = rules_at(2)

-- The work of one call is limited, so that it blocks Redis for only a few milliseconds: looking for an item in a
-- channel is one step, removing it from one is twenty.
local steps, MOST_STEPS, STEPS_TO_LEAVE = 0, 20000, 20

-- The channels that have the item in one of two kinds of sets, its score there, and when it was read, if it is unread
-- in none of them.
local function found(id, part, read_part)
  local at, score, unread, read_at = {}, nil, false, nil
  steps = steps + #others
  for _, sets in ipairs(others) do
    local there = redis.call('ZSCORE', sets[part], id)
    if there then
      at[#at + 1] = sets
      score = there
      local read = reading_time(sets[read_part], id)
      if not read then
        unread = true
      elseif not read_at or tonumber(read) > tonumber(read_at) then
        read_at = read
      end
    end
  end
  return at, score, not unread and read_at
end

local function lost_for_good(id)
  local left = left_as(target, id)
  return left and left ~= MOVED and not MAY_RETURN[left]
end

-- What to do with an item; nil if no channel has it.
local function planned(id, urls)
  local shown, score, read_at = found(id, 'posts', 'read')
  local is_shown = #shown > 0
  if not is_shown and which ~= 'all' and target_uid ~= 'saved' then
    score, read_at = redis.call('ZSCORE', saved.posts, id), reading_time(saved.read, id)
    is_shown = score
  end
  local hidden, hidden_score, hidden_read_at = {}, nil, nil
  if which == 'all' then hidden, hidden_score, hidden_read_at = found(id, 'hidden', 'hidden_read') end
  if (#hidden == 0 and not is_shown) or ruled(blocks, urls) then return nil end
  if not is_shown then score, read_at = hidden_score, hidden_read_at end
  if which ~= 'copy' then steps = steps + STEPS_TO_LEAVE * (#shown + #hidden) end
  return {
    id = id,
    from = which == 'copy' and {} or { shown, hidden },
    score = score,
    read_at = read_at,
    comes = not stands(id) and (is_shown or not lost_for_good(id)),
    is_muted = ruled(mutes, urls),
  }
end

local at, looked_at, moves, coming = 11, 0, {}, 0
while at <= #ARGV and steps < MOST_STEPS do
  local one = planned(ARGV[at], urls_of(ARGV[at + 1]))
  at, looked_at = at + 2, looked_at + 1
  moves[#moves + 1] = one
  if one and one.comes then coming = coming + 1 end
end

local most = tonumber(ARGV[10])
if most > 0 and coming > 0 then
  local count = redis.call('ZCARD', target.posts)
  if count + coming > most then return { -1, count } end
end
for _, one in ipairs(moves) do
  if one.comes then
    forget(target, one.id)
    enter(target, one.id, one.score, one.read_at, one.is_muted)
  end
  for _, several in ipairs(one.from) do
    for _, sets in ipairs(several) do leave(sets, { one.id }, MOVED) end
  end
end
note_all(6, seconds)
return { #moves, looked_at }
