-- Notes that a post shows a file, or that none does; deletes it where that was noted long ago.
--
-- Atomic: the look at the file and the note, so that none comes back without its data, and one that a post is about to show,
-- which ends its time unused, isn't deleted.
--
-- KEYS  1 file  2 media
-- ARGV  1 'shown' or 'unused'
--       'shown': 2 the post; reply none
--       'unused': 2 its token  3 now  4 time before which it must have been noted for the file to be deleted;
--                 reply 1 where it was deleted, else 0
if ARGV[1] == 'shown' then
  if redis.call('EXISTS', KEYS[1]) == 0 then return end
  redis.call('HSET', KEYS[1], 'post ' .. ARGV[2], '')
  redis.call('HDEL', KEYS[1], 'unused')
  return
end
local since = redis.call('HGET', KEYS[1], 'unused')
if not since then
  redis.call('HSET', KEYS[1], 'unused', ARGV[3])
  return 0
end
if tonumber(since) > tonumber(ARGV[4]) then return 0 end
redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[2])
return 1
