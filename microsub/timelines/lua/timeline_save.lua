-- Puts items into `saved`, as read, since saving makes nothing unread.
--
-- Atomic: the count of all that is saved and the items, so that no two requests together save more than there may be; of
-- one request all items come in, or none. What is there stays as it is. That an item was taken out before doesn't keep
-- it out, since its reader asks for it. Mutes and blocks aren't asked: it was chosen by hand.
--
-- KEYS  1 channels  2-7 posts, unread, read, hidden, hidden-read, gone of `saved`  8, 9 arrivals  10 events
-- ARGV  1 now  2 how many items may be saved, 0 for any number  3.. per item: id, score
-- reply {'id id …' that came in}; {'', count}: so many are there, and these are too many; or -1: no such user
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
  redis.call('ZREM', sets.gone, id)
  enter(sets, id, scores[i], ARGV[1], false)
end
note_all(8, ARGV[1])
return { table.concat(ids, ' ') }
