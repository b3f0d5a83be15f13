-- Notes that no post shows a file, or deletes it where that was noted long ago.
--
-- Atomic: a post that is about to show the file ends its time unused, and then it isn't deleted.
--
-- KEYS  1 media  2 file
-- ARGV  1 its token  2 now  3 time before which it must have been noted for the file to be deleted
-- reply 1 where it was deleted, else 0
local since = redis.call('HGET', KEYS[2], 'unused')
if not since then
  redis.call('HSET', KEYS[2], 'unused', ARGV[2])
  return 0
end
if tonumber(since) > tonumber(ARGV[3]) then return 0 end
redis.call('DEL', KEYS[2])
redis.call('SREM', KEYS[1], ARGV[1])
return 1
