-- Shows items again that are unread or read in a channel though nothing shows or hides them: its posts were lost.
--
-- Atomic per item: its state is asked in the step that gives it a place. What is both unread and read is read.
--
-- KEYS  1 posts  2 unread  3 read  4 hidden  5 hidden-read  6 gone
-- ARGV  1.. per item: id, score
-- reply 'id id …' that came back
local posts, unread, read, hidden, gone = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6]
local back = {}
for at = 1, #ARGV, 2 do
  local id, score = ARGV[at], ARGV[at + 1]
  local is_read = redis.call('ZSCORE', read, id)
  local is_known = is_read or redis.call('ZSCORE', unread, id)
  local stands = redis.call('ZSCORE', gone, id) or redis.call('ZSCORE', hidden, id)
  if is_known and not stands and redis.call('ZADD', posts, 'NX', score, id) == 1 then
    if is_read then redis.call('ZREM', unread, id) else redis.call('ZADD', unread, score, id) end
    back[#back + 1] = id
  end
end
return table.concat(back, ' ')
