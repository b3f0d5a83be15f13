-- Keeps a host for longer, or gives it back.
--
-- Atomic: only the holder of the token can do it, and a host that is given back is due in the same step.
--
-- KEYS  1 hosts by time  2 leases, and who shall look again (schedule_hosts.lua)
-- ARGV  1 host  2 token  3 'renew' or 'release'  4 end of the lease, or the time of the next request, or '' for never
-- reply 1, or 2 where feeds were added to the host that is given back, or 0 where the lease was lost
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end
local added = 0
if ARGV[3] == 'release' then
  redis.call('HDEL', KEYS[2], ARGV[1])
  added = redis.call('HDEL', KEYS[2], 'again ' .. ARGV[1])
end
if ARGV[4] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], ARGV[4], ARGV[1])
end
return 1 + added
