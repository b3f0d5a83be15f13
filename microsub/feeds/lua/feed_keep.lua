-- Lets a feed stay though nobody follows it, or ends that.
--
-- Atomic: the mark and the time to live of the feed's keys change together, whatever followers come and go meanwhile.
--
-- KEYS  1 subscribers  2 edition  3 feed  4.. the feed's other keys
-- ARGV  1 'keep' or 'release'  2 time to live in seconds
-- reply 1 where that is new, 0 where it was so or there is no such feed
if redis.call('EXISTS', KEYS[3]) == 0 then return 0 end
local keeps = ARGV[1] == 'keep'
local changed
if keeps then
  changed = redis.call('HSETNX', KEYS[3], 'kept', '1')
else
  changed = redis.call('HDEL', KEYS[3], 'kept')
end
for _, key in ipairs(KEYS) do
  if keeps then
    redis.call('PERSIST', key)
  elseif redis.call('EXISTS', KEYS[1]) == 0 and redis.call('TTL', key) == -1 then
    redis.call('EXPIRE', key, ARGV[2])
  end
end
return changed
