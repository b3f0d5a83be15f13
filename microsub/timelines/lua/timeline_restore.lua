-- Shows items again that are unread or read in a channel though nothing shows or hides them: its posts were lost.
--
-- Atomic per item: its state is asked in the step that shows it. What is both unread and read is read.
--
-- KEYS  1 posts  2 unread  3 read  4 hidden  5 hidden-read  6 gone
-- ARGV  1.. per item: id, score
-- reply 'id id …' that came back
-- include: enter
local sets = { posts = KEYS[1], unread = KEYS[2], read = KEYS[3], hidden = KEYS[4], hidden_read = KEYS[5], gone = KEYS[6] }
local back = {}
for at = 1, #ARGV, 2 do
  local id, score = ARGV[at], ARGV[at + 1]
  local is_read = redis.call('ZSCORE', sets.read, id)
  local is_known = is_read or redis.call('ZSCORE', sets.unread, id)
  local stands = redis.call('ZSCORE', sets.gone, id) or redis.call('ZSCORE', sets.hidden, id)
  if is_known and not stands and redis.call('ZADD', sets.posts, 'NX', score, id) == 1 then
    if is_read then redis.call('ZREM', sets.unread, id) end
    show_state(sets, id, score, is_read)
    back[#back + 1] = id
  end
end
return table.concat(back, ' ')
