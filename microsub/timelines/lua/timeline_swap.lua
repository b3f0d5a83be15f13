-- Removes an unread post with its feed, or replaces it by its duplicate from another feed of the same channel.
--
-- Atomic per item: the duplicate is added in the step that removes the item, so the post is never missing and never
-- there twice. The duplicate must be in `gone` as a replaced one, and its feed must be followed here now; otherwise the
-- item just leaves. Nothing happens if the item's feed is followed (again), or if it has been read.
--
-- KEYS  1 feeds  2-14 timeline: posts, unread, read, hidden, hidden-read, gone, muted (channel, global), blocked
--       (channel, global), arrivals, events
-- ARGV  1 now: in whole seconds  2 feed: that was unfollowed  3 uid  4.. items: per item: id that leaves, k, k times a
--       duplicate: its id, score, feed, lines of URLs (author, sources)
-- reply nothing
-- include: reasons
-- include: gone
-- include: unread_changes
-- include: readings
-- include: reading_changes
-- include: arrivals
-- include: events
-- include: timeline

local sets = sets_at(2, ARGV[3])
local mutes, blocks = rules_at(8)
local seconds = tonumber(ARGV[1])
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then return end

local function arrive(duplicate)
  if left_as(sets, duplicate.id) ~= DUPLICATE then return false end
  if redis.call('HEXISTS', KEYS[1], duplicate.feed) == 0 or ruled(blocks, duplicate.urls) then return false end
  forget(sets, duplicate.id)
  enter(sets, duplicate.id, duplicate.score, nil, ruled(mutes, duplicate.urls))
  return true
end

local at = 4
while at <= #ARGV do
  local id, duplicates = ARGV[at], {}
  local count = tonumber(ARGV[at + 1])
  at = at + 2
  for i = 1, count do
    duplicates[i] = { id = ARGV[at], score = ARGV[at + 1], feed = ARGV[at + 2], urls = urls_of(ARGV[at + 3]) }
    at = at + 4
  end
  local shown, hidden = redis.call('ZSCORE', sets.posts, id), redis.call('ZSCORE', sets.hidden, id)
  local read = reading_time(shown and sets.read or sets.hidden_read, id)
  if (shown or hidden) and not read then
    leave(sets, { id }, UNFOLLOWED)
    for _, duplicate in ipairs(duplicates) do
      if arrive(duplicate) then break end
    end
  end
end
note_all(12, seconds)
