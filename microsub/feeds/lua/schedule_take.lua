-- Takes the hosts that have been due longest, for one worker.
--
-- Atomic: the time of a taken host becomes the end of its lease at once, so that no other worker takes it. A host whose
-- lease has run out is due again, and its new token is larger than any before. A host planned beyond the farthest time,
-- by a clock that was ahead, is due too.
--
-- The latest time at which hosts were taken is stored to within a minute: if it is in the future, a clock was ahead.
--
-- KEYS  1 hosts by time  2 leases: host -> token; '*' -> the last token; '* at' -> the latest time of taking
-- ARGV  1 now  2 how many at most  3 end of the lease  4 the farthest time  5.. hosts, to take only these
-- reply the latest time of taking before, then host, token, host, token, …
local now, latest = tonumber(ARGV[1]), tonumber(redis.call('HGET', KEYS[2], '* at') or '0')
if now > latest + 60 then redis.call('HSET', KEYS[2], '* at', string.format('%d', now)) end
local due = {}
if #ARGV == 4 then
  due = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[4], '+inf', 'LIMIT', 0, ARGV[2])
  local others = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2] - #due)
  for _, host in ipairs(others) do due[#due + 1] = host end
else
  for at = 5, #ARGV do
    local time = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[at]) or '')
    if time and (time <= tonumber(ARGV[1]) or time > tonumber(ARGV[4])) and #due < tonumber(ARGV[2]) then due[#due + 1] = ARGV[at] end
  end
end

local taken = { string.format('%d', latest) }
for _, host in ipairs(due) do
  local token = redis.call('HINCRBY', KEYS[2], '*', 1)
  redis.call('HSET', KEYS[2], host, token)
  redis.call('ZADD', KEYS[1], ARGV[3], host)
  taken[#taken + 1] = host
  taken[#taken + 1] = tostring(token)
end
return taken
