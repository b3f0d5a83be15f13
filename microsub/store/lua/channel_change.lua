-- Sets and deletes fields of a channel that exists.
--
-- Atomic: the check and the write, so that a change that meets a deletion leaves no stray key behind.
--
-- KEYS  1 channels  2 channel
-- ARGV  1 uid, then pairs of field and value; an empty value deletes the field
-- reply 0: no such channel; 1
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
for i = 2, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[2], ARGV[i])
  else
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  end
end
return 1
