-- Sets when feeds of one host are due, at the latest, and says when the host may be asked for them.
--
-- Atomic: the reply belongs to the state that was written.
--
-- KEYS  1 feeds of the host by time due  2 host
-- ARGV  1.. per feed: id, time due
-- reply the time of the host's next request, as text
-- include: host_next
for at = 1, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], 'LT', ARGV[at + 1], ARGV[at])
end
return host_next(KEYS[1], KEYS[2], math.huge)
