-- Lets hosts be taken from a time on.
--
-- Atomic: a host that is taken stays where it stands, at the end of its lease; its holder is told, when it gives it
-- back, to look for new feeds.
--
-- KEYS  1 hosts by time  2 leases; 'again <host>' -> 1 where its holder shall look again
-- ARGV  1.. per host: name, time
-- reply nothing
for at = 1, #ARGV, 2 do
  if redis.call('HEXISTS', KEYS[2], ARGV[at]) == 0 then
    redis.call('ZADD', KEYS[1], 'LT', ARGV[at + 1], ARGV[at])
  else
    redis.call('HSET', KEYS[2], 'again ' .. ARGV[at], 1)
  end
end
