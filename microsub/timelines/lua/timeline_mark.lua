-- Marks the named items read or unread, in one channel or in all; or marks all unread items from a place on as read.
--
-- Atomic: an item's move between unread and read. Unknown items are ignored, so a mark after a removal creates nothing.
-- Naming a muted item changes its state too, which shows when it is unmuted. A mark from a place on leaves muted items
-- alone, because the user hasn't seen them.
--
-- KEYS  1 channels  2 live_events
-- ARGV  1-6 patterns: parts/channels.lua  7 uid: or 'global'  8 how: 'read', 'unread' or 'until'  9 now  10.. items:
--       ids; or for 'until' the id of the newest item to mark, '' for all, and its score, '' if the channel has it
-- reply {'id id …' whose state changed (in any channel), number of ids that were examined, the first ones, 1 if the
--       score of an item that has left is needed}, or -1: no such channel
-- include: rank
-- include: channels
-- include: events
-- include: reasons
-- include: gone
local all = channels_named(ARGV[7])
if not all then return -1 end
local to_read, until_place, now, ids = ARGV[8] ~= 'unread', ARGV[8] == 'until', ARGV[9], {}
if until_place then
  local sets, id, score = all[1], ARGV[10], ARGV[11]
  if id ~= '' and score == '' then
    score = redis.call('ZSCORE', sets.posts, id) or redis.call('ZSCORE', sets.hidden, id)
    if not score then return { '', 0, left_as(sets, id) and 1 or 0 } end
  end
  local first = id == '' and 0 or rank(sets.unread, score, id)
  ids = redis.call('ZREVRANGE', sets.unread, first, first + 999)
else
  for i = 10, 9 + share(all, #ARGV - 9) do ids[i - 9] = ARGV[i] end
end
if #ids == 0 then return { '', 0, 0 } end
local known, marked = {}, {}

local function note(id)
  if not known[id] then
    known[id] = true
    marked[#marked + 1] = id
  end
end

local function among(key) return redis.call('ZMSCORE', key, unpack(ids)) end

for _, sets in ipairs(all) do
  local hidden = until_place and {}
  local shown = until_place and ids or among(to_read and sets.unread or sets.posts)
  local read = not to_read and among(sets.read)
  local out, into = {}, {}
  for i, id in ipairs(ids) do
    if shown[i] and (to_read or read[i]) then
      out[#out + 1] = id
      into[#into + 1] = to_read and now or shown[i]
      into[#into + 1] = id
      note(id)
    else
      hidden = hidden or among(sets.hidden)
      local count = 0
      if hidden[i] and to_read then
        count = redis.call('ZADD', sets.hidden_read, 'NX', now, id)
      elseif hidden[i] then
        count = redis.call('ZREM', sets.hidden_read, id)
      end
      if count == 1 then note(id) end
    end
  end
  if #out > 0 then
    changed(sets)
    redis.call('ZREM', to_read and sets.unread or sets.read, unpack(out))
    redis.call('ZADD', to_read and sets.read or sets.unread, unpack(into))
  end
end
note_changes(KEYS[2])
return { table.concat(marked, ' '), #ids, 0 }
