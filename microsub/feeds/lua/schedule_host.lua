-- The holder's access to a host's feeds; and setting when feeds of the host are due, which needs no lease.
--
-- Atomic: the host remembers its newest holder, and refuses earlier ones; so two workers never both have the last word
-- on a feed, even if one slept through its lease.
--
-- KEYS  1 host_due: feeds of the host by time due  2 host
-- ARGV  1 token  2 life: time to live of the host's record  3 verb  4.. rest
--       'due'     now, how many, and the latest plausible time; a feed planned beyond it by a clock that was ahead is
--                 due too
--                 reply: when another feed is due, and until when the host is held, or '' for either; feed ids
--       'finish'  feed, next time or ''   reply: 1
--       'add'     per feed: id, time due at the latest; the token isn't checked
--                 reply: the time of the host's next request, or ''
--       'next'    time until which the spacing lasts, the farthest time that a host can be held until,
--                 feed and next time as in 'finish', or neither
--                 reply: the time of the host's next request, or ''
-- reply nil if there is a newer holder
-- When the host's next request is allowed: its earliest feed's time, but not before its spacing (`free`) and hold are
-- over. '' if it has no feeds. A spacing or hold beyond `farthest` was written by a clock that was ahead, and is
-- ignored. Redis can't print a time without losing digits, so this does.
local function host_next(due_key, host_key, farthest)
  local first = redis.call('ZRANGE', due_key, 0, 0, 'WITHSCORES')
  if not first[2] then return '' end
  local at = tonumber(first[2])
  for _, text in ipairs(redis.call('HMGET', host_key, 'free', 'hold')) do
    local time = tonumber(text or 0) or 0
    if time <= farthest then at = math.max(at, time) end
  end
  return string.format('%.6f', at)
end

if ARGV[3] == 'add' then
  for at = 4, #ARGV, 2 do redis.call('ZADD', KEYS[1], 'LT', ARGV[at + 1], ARGV[at]) end
  return host_next(KEYS[1], KEYS[2], math.huge)
end
local newest = tonumber(redis.call('HGET', KEYS[2], 'token') or 0) or 0
if newest > tonumber(ARGV[1]) then return nil end
redis.call('HSET', KEYS[2], 'token', ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[2])
if ARGV[3] == 'due' then
  local due = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[6], '+inf', 'LIMIT', 0, ARGV[5])
  if #due == 0 then due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[4], 'LIMIT', 0, ARGV[5]) end
  local taken, further = {}, ''
  for _, feed in ipairs(due) do taken[feed] = true end
  local first = redis.call('ZRANGE', KEYS[1], 0, #due, 'WITHSCORES')
  for at = #first - 1, 1, -2 do
    if not taken[first[at]] then further = string.format('%.6f', tonumber(first[at + 1])) end
  end
  return { further, redis.call('HGET', KEYS[2], 'hold') or '', unpack(due) }
end
local function finish(feed, time)
  if time == '' then
    redis.call('ZREM', KEYS[1], feed)
  else
    -- A feed that was removed during its poll stays removed.
    redis.call('ZADD', KEYS[1], 'XX', time, feed)
  end
end
if ARGV[3] == 'next' then
  if ARGV[6] then finish(ARGV[6], ARGV[7]) end
  redis.call('HSET', KEYS[2], 'free', ARGV[4])
  return host_next(KEYS[1], KEYS[2], tonumber(ARGV[5]))
end
finish(ARGV[4], ARGV[5])
return 1
