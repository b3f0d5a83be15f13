-- Sets when hosts can be taken, keeps a host for longer, or gives it back.
--
-- Atomic: a taken host's time is the end of its lease; when its holder gives it back, the reply says whether to look
-- for new feeds. Only the holder of the token can renew or release it, and a released host is due in the same step.
--
-- KEYS  1 hosts by time  2 leases; 'again <host>' -> 1 if its holder must look again
-- ARGV  1 'due'       2.. per host: name, time; reply 1
--         'renew' or 'release'  2 host  3 token  4 end of the lease, or the time of the next request, or '' for never
--                   reply: 1, or 2 if feeds were added to the released host, or 0 if the lease was lost
if ARGV[1] == 'due' then
  for at = 2, #ARGV, 2 do
    if redis.call('HEXISTS', KEYS[2], ARGV[at]) == 0 then
      redis.call('ZADD', KEYS[1], 'LT', ARGV[at + 1], ARGV[at])
    else
      redis.call('HSET', KEYS[2], 'again ' .. ARGV[at], 1)
    end
  end
  return 1
end
if redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then return 0 end
local added = 0
if ARGV[1] == 'release' then
  redis.call('HDEL', KEYS[2], ARGV[2])
  added = redis.call('HDEL', KEYS[2], 'again ' .. ARGV[2])
end
if ARGV[4] == '' then
  redis.call('ZREM', KEYS[1], ARGV[2])
else
  redis.call('ZADD', KEYS[1], ARGV[4], ARGV[2])
end
return 1 + added
