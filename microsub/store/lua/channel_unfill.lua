-- Lets the next posts of a channel's feeds count as its first fill: what is older than the newest few comes in as read.
--
-- Atomic: a timeline that has, or had, anything in it is left alone, and so is a feed that isn't followed.
--
-- KEYS  1 feeds  2 unfilled  3 posts  4 hidden  5 gone
-- ARGV  1 now
-- reply 1 where the timeline was blank, else 0
if redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5]) > 0 then return 0 end
for _, feed in ipairs(redis.call('HKEYS', KEYS[1])) do
  local unfilled = redis.call('HGET', KEYS[2], feed)
  -- What was left of a former fill is as lost as the fill.
  if not unfilled or string.sub(unfilled, 1, 5) == 'left ' then redis.call('HSET', KEYS[2], feed, ARGV[1]) end
end
return 1
