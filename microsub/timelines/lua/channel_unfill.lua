-- Says what is left of a timeline, and lets the next posts of a blank one's feeds count as its first fill: what is older
-- than the newest few comes in as read.
--
-- Atomic: a timeline that has anything in it is left alone, and so is a feed that isn't followed. What left a timeline
-- stays away by itself.
--
-- KEYS  1 feeds  2 unfilled  3 posts  4 unread  5 read  6 hidden
-- ARGV  1 now
-- reply 1 where the timeline was blank; 2 where only what is unread is left of it; else 0
local has_unread = redis.call('EXISTS', KEYS[4]) == 1
if redis.call('EXISTS', KEYS[3], KEYS[5], KEYS[6]) > 0 then return 0 end
if has_unread then return 2 end
for _, feed in ipairs(redis.call('HKEYS', KEYS[1])) do
  local unfilled = redis.call('HGET', KEYS[2], feed)
  -- What was left of a former fill is as lost as the fill.
  if not unfilled or string.sub(unfilled, 1, 5) == 'left ' then redis.call('HSET', KEYS[2], feed, ARGV[1]) end
end
return 1
