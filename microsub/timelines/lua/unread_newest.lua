-- Puts the newest unread items of a channel into a sorted set, in the order of their times, for pages of unread items.
--
-- Atomic: the set has all unread items that aren't older than its oldest; every later change of unread items keeps it so
-- (parts/unread_changes.lua). If they can't be found by looking at some thousands of items, there is none.
--
-- KEYS  1 posts  2 unread  3 unread_newest
-- ARGV  1 most: number of items
-- reply number of items in it
-- include: unread
-- include: unread_changes
local MOST_LOOKS, FEW = 10000, 2000
local posts, unread, newest, most = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1])
local count, ids, rows = count_unread(unread), {}, {}
redis.call('UNLINK', newest)
if count == 0 then return 0 end

-- The posts that one probably looks at, or if these have too few and not many are unread, all unread ones.
local expected, first, is_end = math.ceil(1.1 * most * redis.call('ZCARD', posts) / count), 0, false
local looks = count <= FEW and (count < expected and 0 or 2 * expected) or MOST_LOOKS
while first < looks and #ids < most and not is_end do
  local looked = redis.call('ZREVRANGE', posts, first, first + math.min(1000, expected) - 1)
  local marks = #looked > 0 and unread_marks(unread, looked)
  for i = 1, #looked do
    if marks[i] == 1 and #ids < most then ids[#ids + 1] = looked[i] end
  end
  first, is_end = first + #looked, #looked == 0
end
if #ids < most and not is_end and count <= FEW then
  -- Of a set, all scores are 1: times 0, those of the posts are left.
  local all = redis.call('ZINTER', 2, posts, unread, 'WEIGHTS', 1, 0, 'WITHSCORES')
  for i = #all - 1, math.max(1, #all - 2 * most + 1), -2 do
    rows[#rows + 1] = all[i + 1]
    rows[#rows + 1] = all[i]
  end
elseif #ids > 0 then
  for i, score in ipairs(redis.call('ZMSCORE', posts, unpack(ids))) do
    rows[2 * i - 1], rows[2 * i] = score, ids[i]
  end
end
if #rows == 0 then return 0 end
redis.call('ZADD', newest, unpack(rows))
redis.call('EXPIRE', newest, NEWEST_SECONDS)
return #rows / 2
