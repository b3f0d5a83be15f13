-- Sets and deletes fields of a feed.
--
-- Atomic: only a feed that exists is written to; what has expired must not come back as a torso without a time to live.
-- A reading writes nothing when a later one has begun.
--
-- KEYS  1 feed
-- ARGV  1 the reading that writes, or ''  2.. per field: name, '1' to set or '' to delete, value
-- reply 1 where it was written, else 0
-- include: overtaken
if redis.call('EXISTS', KEYS[1]) == 0 or overtaken(KEYS[1], ARGV[1]) then return 0 end
for at = 2, #ARGV, 3 do
  if ARGV[at + 1] == '1' then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
  else
    redis.call('HDEL', KEYS[1], ARGV[at])
  end
end
return 1
