-- Lets an attempt through, or says how long to wait. Each counts as failed until it is given back.
--
-- Atomic: the look at the pause and the count, so that attempts side by side can't share one place.
--
-- A pause that would last longer than the longest one was written by a clock that was ahead; it counts for nothing.
--
-- KEYS  1 attempts
-- ARGV  1 now  2 seconds that the count is kept  3.. pause after the first attempt, the second …; the last one holds for
--       all later ones
-- reply the seconds to wait, rounded up, 0: let through; and how many attempts count by now
local now = tonumber(ARGV[1])
local pause_until = tonumber(redis.call('HGET', KEYS[1], 'until') or '0')
if now < pause_until and pause_until - now <= tonumber(ARGV[#ARGV]) + 1 then
  return { math.ceil(pause_until - now), tonumber(redis.call('HGET', KEYS[1], 'count') or '0') }
end
local count = redis.call('HINCRBY', KEYS[1], 'count', 1)
local pause = tonumber(ARGV[math.min(count + 2, #ARGV)])
-- Without a pause no time stands there: rounded, it could lie after now.
redis.call('HSET', KEYS[1], 'until', pause > 0 and string.format('%.3f', now + pause) or '0')
redis.call('EXPIRE', KEYS[1], ARGV[2])
return { 0, count }
