-- A page of a feed's posts, newest first.
--
-- Atomic: the cursor's place and the page, so new posts shift nothing. Writes nothing.
--
-- KEYS  1 feed_items
-- ARGV  1 limit  2, 3 cursor: its score and id, or '' for the beginning
-- reply {id, score, id, score, …}
-- include: rank
local first = 0
if ARGV[2] ~= '' then
  local before, stands = rank(KEYS[1], ARGV[2], ARGV[3])
  first = before + stands
end
return redis.call('ZREVRANGE', KEYS[1], first, first + ARGV[1] - 1, 'WITHSCORES')
