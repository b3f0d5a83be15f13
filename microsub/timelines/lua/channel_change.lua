-- Sets and deletes fields of a channel that exists.
--
-- Atomic: the check and the write, so that a change that meets a deletion leaves no stray key behind, and the user's
-- `shape`, a number that grows with every change of a name or setting, by which remembered ones are known to be old.
--
-- KEYS  1 channels  2 channel  3 user
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
redis.call('HINCRBY', KEYS[3], 'shape', 1)
return 1
