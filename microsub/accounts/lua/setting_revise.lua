-- Sets or deletes a setting of an existing user, if it still has the value from which the new one was made.
--
-- Atomic: the comparison and the write, so that of two processes that revise a setting neither loses the other's change.
--
-- KEYS  1 user
-- ARGV  1 name  2 before: '' for none  3 after: '' deletes it
-- reply 0: there is no such user; 1: done; {value}: it is another one now
if redis.call('HEXISTS', KEYS[1], 'me') == 0 then return 0 end
local there = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if there ~= ARGV[2] then return { there } end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return 1
