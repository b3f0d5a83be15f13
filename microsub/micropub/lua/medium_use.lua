-- Records that a post shows a file, or that no post does; deletes a file that has long been unused.
--
-- Atomic: the check for the file and the record. So no record exists without its data, and a file that a post is about
-- to show, which ends its unused time, isn't deleted.
--
-- KEYS  1 file  2 media?
-- ARGV  1 how: 'shown' or 'unused'  2 what: the post, or the file's token  3 now?  4 until?
--       'shown': no reply
--       'unused': the file is deleted if it was recorded as unused before `until`; reply 1 if it was deleted, else 0
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
