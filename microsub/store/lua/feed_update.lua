-- Sets, deletes and counts up fields of a feed.
--
-- Atomic: only a feed that exists is written to; what has expired must not come back as a torso without a time to live.
--
-- KEYS  1 feed
-- ARGV  1.. per field: name, '1' to set, '' to delete or '+' to count, value
-- reply 1 where the feed exists, else 0
-- include: taken
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for at = 1, #ARGV, 3 do
  if ARGV[at + 1] == '1' then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
  elseif ARGV[at + 1] == '+' then
    redis.call('HSET', KEYS[1], ARGV[at], string.format('%d', taken(KEYS[1]) + 1))
  else
    redis.call('HDEL', KEYS[1], ARGV[at])
  end
end
return 1
