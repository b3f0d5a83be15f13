-- Lets items that have left one channel for good stay out of another one too.
--
-- Atomic per item: what stands in the other channel at that moment, or has left it already, is as it is there.
--
-- KEYS  1 gone of the one channel  2 gone  3 posts  4 hidden of the other
-- ARGV  1.. ids
-- reply how many stay out from now on
-- include: reasons
-- include: leave
local count = 0
for i, left in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(ARGV))) do
  local id = ARGV[i]
  if left and not MAY_RETURN[reason_of(left)]
    and not redis.call('ZSCORE', KEYS[3], id) and not redis.call('ZSCORE', KEYS[4], id) then
    count = count + redis.call('ZADD', KEYS[2], 'NX', left, id)
  end
end
return count
