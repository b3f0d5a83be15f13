-- Sets and deletes fields of a feed, at the end of a poll with the fingerprints of what its document lists.
--
-- Atomic: only a feed that exists is written to; what has expired must not come back without a time to live.
-- Fingerprints never stand beside the hash of another document than theirs. A reading writes nothing when a later one
-- has begun: it doesn't know what that one has seen.
--
-- KEYS  1 feed  2 fingerprints
-- ARGV  1 the reading that writes, or ''  2 fingerprints, or '' where they stay as they are  3 their time to live in
--       seconds, which begins with the first ones  4.. per field: name, '1' to set or '' to delete, value
-- reply 1 where it was written, else 0
-- include: overtaken
if redis.call('EXISTS', KEYS[1]) == 0 or overtaken(KEYS[1], ARGV[1]) then return 0 end
for at = 4, #ARGV, 3 do
  if ARGV[at + 1] == '1' then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
  else
    redis.call('HDEL', KEYS[1], ARGV[at])
  end
end
if ARGV[2] ~= '' then
  local left = redis.call('PTTL', KEYS[2])
  redis.call('SET', KEYS[2], ARGV[2], 'PX', left > 0 and left or ARGV[3] * 1000)
end
return 1
