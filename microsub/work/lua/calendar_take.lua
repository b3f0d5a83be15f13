-- Claims members of a calendar that have been due longest.
--
-- Atomic: the time of a claimed member becomes the end of its claim at once, so that no other process takes it. A member
-- whose claim has run out is due again. Members claimed together get one token, larger than any before. A member planned
-- beyond the farthest time, by a clock that was ahead, is due too.
--
-- The latest time of a claim is stored to within a minute: if it is in the future, a clock was ahead.
--
-- KEYS  1, 2 shard: members by time; claims: member -> token; '*' -> the last token; '* at' -> the latest time of a
--       claim
-- ARGV  1 now  2 most: how many at most  3 until: end of the claims  4 farthest: the farthest time  5.. among: members,
--       to take only these
-- reply the latest time of a claim before, the token, members
local now, latest = tonumber(ARGV[1]), tonumber(redis.call('HGET', KEYS[2], '* at') or '0')
local due = {}
if #ARGV == 4 then
  due = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[4], '+inf', 'LIMIT', 0, ARGV[2])
  local others = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2] - #due)
  for _, member in ipairs(others) do due[#due + 1] = member end
else
  for at = 5, #ARGV do
    local time = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[at]) or '')
    if time and (time <= now or time > tonumber(ARGV[4])) and #due < tonumber(ARGV[2]) then due[#due + 1] = ARGV[at] end
  end
end
if now > latest + 60 then redis.call('HSET', KEYS[2], '* at', string.format('%d', now)) end
local token = ''
if #due > 0 then token = tostring(redis.call('HINCRBY', KEYS[2], '*', 1)) end
for _, member in ipairs(due) do
  redis.call('HSET', KEYS[2], member, token)
  redis.call('ZADD', KEYS[1], ARGV[3], member)
end
return { string.format('%d', latest), token, unpack(due) }
