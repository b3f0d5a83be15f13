-- Notes that posts of a feed wait to be added to timelines of one user.
--
-- Atomic: the earliest score of all posts left out, and a count that grows with it, so that a process that adds them
-- sees whether more were left out meanwhile; and the channel's existence, so that nothing is noted after its deletion.
--
-- KEYS  1 channels  2 behind
-- ARGV  1 feed  2 since: score of the earliest post  3.. uids
-- reply number of timelines
local noted = 0
for i = 3, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    local field = ARGV[i] .. ' ' .. ARGV[1]
    local since, count = ARGV[2], 1
    local known = redis.call('HGET', KEYS[2], field)
    if known then
      local before, times = string.match(known, '^(%S+) (%d+)$')
      if before then
        if tonumber(before) < tonumber(since) then since = before end
        count = tonumber(times) + 1
      end
    end
    redis.call('HSET', KEYS[2], field, since .. ' ' .. count)
    noted = noted + 1
  end
end
return noted
