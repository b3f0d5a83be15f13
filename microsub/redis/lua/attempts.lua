-- Admits an attempt, or returns how long to wait; or gives one back. Each counts as failed until it is given back.
--
-- Atomic: the check of the pause and the count, so that concurrent attempts can't share one place.
--
-- A pause longer than the maximum was written by a clock that was ahead; it is ignored.
--
-- KEYS  1 attempts
-- ARGV  1 now?: '' to give back one that didn't fail, with the pause that it began  2 kept?: seconds that the count is
--       kept  3.. pauses: after the first attempt, the second …; the last one applies to all later ones
-- reply the seconds to wait, rounded up, 0: admitted; and the current number of attempts
local held = redis.call('HMGET', KEYS[1], 'count', 'until')
local count, pause_until = tonumber(held[1] or '0'), tonumber(held[2] or '0')
if ARGV[1] == '' then
  if count <= 1 then
    redis.call('DEL', KEYS[1])
  else
    redis.call('HSET', KEYS[1], 'count', count - 1, 'until', '0')
  end
  return { 0, math.max(0, count - 1) }
end
local now = tonumber(ARGV[1])
if now < pause_until and pause_until - now <= tonumber(ARGV[#ARGV]) + 1 then
  return { math.ceil(pause_until - now), count }
end
local pause = tonumber(ARGV[math.min(count + 3, #ARGV)])
-- Without a pause no time is stored, because its rounded value could be after now.
redis.call('HSET', KEYS[1], 'count', count + 1, 'until', pause > 0 and string.format('%.3f', now + pause) or '0')
redis.call('EXPIRE', KEYS[1], ARGV[2])
return { 0, count + 1 }
