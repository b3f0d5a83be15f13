-- Writes what was agreed with a feed's hub, and what the feed's health says of it.
--
-- Atomic: nothing is written where the feed has gone, or where what the change was decided by is not as it was read, so
-- that a verification and a renewal at once don't undo each other; the health never says what isn't agreed.
--
-- KEYS  1 feed  2 what was agreed
-- ARGV  1 time to live where the feed has gone altogether  2 a field of the second key, or ''  3 its value as it was read
--       4 how many fields of the second key follow  5.. per field: name, '1' to set or '' to delete, value; behind those
--       the fields of the feed
-- reply 1 where it was written, else 0
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then return 0 end
local behind = 5 + 3 * ARGV[4]
for at = 5, #ARGV, 3 do
  local key = at < behind and KEYS[2] or KEYS[1]
  if ARGV[at + 1] == '1' then
    redis.call('HSET', key, ARGV[at], ARGV[at + 2])
  else
    redis.call('HDEL', key, ARGV[at])
  end
end
-- A feed that nobody follows expires as a whole.
local ttl = redis.call('TTL', KEYS[1])
if ttl ~= -1 then redis.call('EXPIRE', KEYS[2], ttl < 1 and ARGV[1] or ttl) end
return 1
