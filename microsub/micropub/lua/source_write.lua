-- Writes a source of a user.
--
-- Atomic: the count of sources and the new one, so that no number of requests at once makes more than there may be; and a
-- change is written only over what it was made from.
--
-- KEYS  1 user  2 sources
-- ARGV  1 'create' or 'change'  2 id  3 value  4 how many sources there may be, or '' for any number; 'change': the value
--       that it was made from
-- reply -1: no such user; 0 nothing was written: there is one of that id ('create'), or it is another by now; 1 written;
--       2 + count: that many there are, and no more may be
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
if ARGV[1] == 'change' then
  if redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[4] then return 0 end
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
  return 1
end
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then return 0 end
local count = redis.call('HLEN', KEYS[2])
if ARGV[4] ~= '' and count >= tonumber(ARGV[4]) then return 2 + count end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 1
