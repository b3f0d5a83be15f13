-- Sets and deletes fields of a user that exists.
--
-- Atomic: the check and the write, so that nothing is written beside a user that was never made.
--
-- KEYS  1 user
-- ARGV  pairs of field and value; an empty value deletes the field
-- reply 0: no such user; 1
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return 1
