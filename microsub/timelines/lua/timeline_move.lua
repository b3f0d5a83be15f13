-- Moves items into one channel, out of all others of the user that show them; their read state goes along. On demand
-- also out of those that hide them, as when the whole feed moves: an item that is shown nowhere has the state that it
-- has where it is hidden. Or lets items that have left a channel for good stay out of another one.
--
-- Atomic per item: it is always in exactly one channel, with one state. It is unread in the target when it was unread in any
-- of the channels that it leaves, as `global` has shown it; where the target has it already, its state there stays. A
-- removal from the target is taken back, since the reader asks for the item there; not for an item that the reader
-- can't see, which just leaves then.
-- The target's rules hold: what is muted there goes to hidden, what is blocked there stays where it was. Nothing leaves
-- `saved` by this: an item that only `saved` shows comes into the target with its state there, and stays saved.
-- Atomic per call: where the target may show so many items alone, all of the call move, or none.
--
-- KEYS  1 channels  2, 3 muted (target, global)  4, 5 blocked (target, global)  6, 7 arrivals  8 events
-- ARGV  1-6 patterns (parts/channels.lua)  7 target  8 now in whole seconds  9 'shown', 'all' for hidden ones too, or 'left'
--       10 how many items the target may show, 0 for any number; with 'left' the uid of the channel that they left
--       11.. per item: id, lines of URLs (author, sources); with 'left' ids
-- reply {number of items that moved, number of items that were looked at, the first ones}; {-1, count}: the target shows
--       so many, and these are too many; -1: no such channel; with 'left' the number of items that stay out from now on
-- include: channels
-- include: reasons
-- include: timeline

local target_uid, seconds, which = ARGV[7], tonumber(ARGV[8]), ARGV[9]
if not redis.call('ZSCORE', KEYS[1], target_uid) then return -1 end
local target = sets_of(target_uid)
local function stands(id) return redis.call('ZSCORE', target.posts, id) or redis.call('ZSCORE', target.hidden, id) end

if which == 'left' then
  local gone, count = sets_of(ARGV[10]).gone, 0
  for i = 11, #ARGV do
    local id = ARGV[i]
    local left = redis.call('ZSCORE', gone, id)
    if left and not MAY_RETURN[reason_of(left)] and not stands(id) then
      count = count + redis.call('ZADD', target.gone, 'NX', left, id)
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

-- What one call may do, so that it holds Redis up for some milliseconds: to look for an item in a channel is one step,
-- to take it out of one twenty.
local steps, MOST_STEPS, STEPS_TO_LEAVE = 0, 20000, 20

-- The channels that have the item in one of two sorts of sets, its score there, and when it was read, if it is unread
-- in none of them.
local function found(id, part, read_part)
  local at, score, unread, read_at = {}, nil, false, nil
  steps = steps + #others
  for _, sets in ipairs(others) do
    local there = redis.call('ZSCORE', sets[part], id)
    if there then
      at[#at + 1] = sets
      score = there
      local read = redis.call('ZSCORE', sets[read_part], id)
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
  local left = redis.call('ZSCORE', target.gone, id)
  if not left then return false end
  local reason = reason_of(left)
  return reason ~= MOVED and not MAY_RETURN[reason]
end

-- What is to be done with an item; nil where it is nowhere to be moved from.
local function planned(id, urls)
  local shown, score, read_at = found(id, 'posts', 'read')
  local is_shown = #shown > 0
  if not is_shown and which == 'shown' and target_uid ~= 'saved' then
    score, read_at = redis.call('ZSCORE', saved.posts, id), redis.call('ZSCORE', saved.read, id)
    is_shown = score
  end
  local hidden, hidden_score, hidden_read_at = {}, nil, nil
  if which == 'all' then hidden, hidden_score, hidden_read_at = found(id, 'hidden', 'hidden_read') end
  if (#hidden == 0 and not is_shown) or ruled(blocks, urls) then return nil end
  if not is_shown then score, read_at = hidden_score, hidden_read_at end
  steps = steps + STEPS_TO_LEAVE * (#shown + #hidden)
  return {
    id = id,
    from = { shown, hidden },
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
    redis.call('ZREM', target.gone, one.id)
    enter(target, one.id, one.score, one.read_at, one.is_muted)
  end
  for _, several in ipairs(one.from) do
    for _, sets in ipairs(several) do leave(sets, one.id, seconds, MOVED) end
  end
end
note_all(6, seconds)
return { #moves, looked_at }
