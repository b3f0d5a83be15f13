-- Adds items to `saved`, as read, since saving makes nothing unread.
--
-- Atomic: the count of saved items and the new ones, so that simultaneous requests don't exceed the limit; a request
-- adds all of its items or none. Saved items don't change. An item that was removed before can be saved again, and
-- mutes and blocks don't apply: the user has chosen it.
--
-- KEYS  1 channels  2-7 sets: posts, unread, read, hidden, hidden-read, gone of `saved`  8 arrivals  9 arrivals_more
--       10 live_events
-- ARGV  1 now  2 most: limit of saved items, 0 for none  3.. items: per item: id, score
-- reply {'id id …' that were added}; {'', count}: count items are there, so these are too many; or -1: no such user
-- include: reasons
-- include: gone
-- include: unread_changes
-- include: readings
-- include: reading_changes
-- include: arrivals
-- include: events
-- include: timeline
if not redis.call('ZSCORE', KEYS[1], 'saved') then return -1 end
local sets = sets_at(2, 'saved')
local ids, scores = {}, {}
for i = 3, #ARGV, 2 do
  if not redis.call('ZSCORE', sets.posts, ARGV[i]) then
    ids[#ids + 1] = ARGV[i]
    scores[#ids] = ARGV[i + 1]
  end
end
local most, count = tonumber(ARGV[2]), redis.call('ZCARD', sets.posts)
if most > 0 and #ids > 0 and count + #ids > most then return { '', count } end
for i, id in ipairs(ids) do
  forget(sets, id)
  enter(sets, id, scores[i], ARGV[1], false)
end
note_all(8, ARGV[1])
return { table.concat(ids, ' ') }
