-- Sets and deletes fields of a feed at the end of a poll, with the marks of what its document lists.
--
-- Atomic: only a feed that exists is written to, as in feed_update.lua; and marks never stand beside the hash of another
-- document than theirs.
--
-- Where another poll has begun to take in news since this one began, nobody knows whose document was the later one, and
-- what the other one has found this one hasn't compared with. Then nothing counts as seen: neither the validators nor the
-- hash nor the marks, so that the next poll reads the document anew.
--
-- KEYS  1 feed  2 marks
-- ARGV  1 marks, or '' where they stay as they are  2 their time to live in seconds, which begins with the first ones
--       3 the count in `taken` as this poll knows it, with its own share
--       4.. per field: name, '1' to set or '' to delete, value
-- reply 1 where the feed exists, else 0
-- include: taken
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local is_overtaken = taken(KEYS[1]) ~= tonumber(ARGV[3])
local seen = { etag = is_overtaken, last_modified = is_overtaken, body_hash = is_overtaken }
for at = 4, #ARGV, 3 do
  if ARGV[at + 1] == '1' and not seen[ARGV[at]] then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2])
  else
    redis.call('HDEL', KEYS[1], ARGV[at])
  end
end
if ARGV[1] ~= '' and not is_overtaken then
  local left = redis.call('PTTL', KEYS[2])
  redis.call('SET', KEYS[2], ARGV[1], 'PX', left > 0 and left or ARGV[2] * 1000)
end
return 1
