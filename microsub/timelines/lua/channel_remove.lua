-- Puts a channel aside, restorable with everything in it, or restores it at its position.
--
-- Atomic: the channel is in exactly one of the two lists, and the mark in its hash (which the page asks) agrees.
--
-- KEYS  1 channels  2 removed channels  3 channel  4 the channel's feeds
-- ARGV  1 uid  2 'remove' or 'restore'  3 now
-- reply ids of the feeds that it follows, or 0: no such channel there
if ARGV[2] == 'remove' then
  local position = redis.call('ZSCORE', KEYS[1], ARGV[1])
  if position then
    redis.call('ZREM', KEYS[1], ARGV[1])
    redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
    redis.call('HSET', KEYS[3], 'removed', ARGV[3], 'position', position)
  elseif not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
    return 0
  end
else
  if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return 0 end
  redis.call('ZADD', KEYS[1], redis.call('HGET', KEYS[3], 'position'), ARGV[1])
  redis.call('HDEL', KEYS[3], 'removed', 'position')
end
return redis.call('HKEYS', KEYS[4])
