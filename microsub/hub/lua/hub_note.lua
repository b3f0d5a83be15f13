-- Plans work of the hub.
--
-- Atomic: work that a worker has claimed isn't given to another one; the claim notes that there is more to do.
--
-- KEYS  1 due  2 claims
-- ARGV  1 'sooner' (moves later work to that time) or 'missing' (keeps planned times)  2.. per member: member, time
-- reply nothing
for i = 2, #ARGV, 2 do
  local member, time = ARGV[i], ARGV[i + 1]
  local claim = redis.call('HGET', KEYS[2], member)
  local planned = redis.call('ZSCORE', KEYS[1], member)
  if claim and planned then
    redis.call('HSET', KEYS[2], member, string.match(claim, '^%S+') .. ' again')
  elseif not planned or ARGV[1] == 'sooner' and tonumber(planned) > tonumber(time) then
    redis.call('ZADD', KEYS[1], time, member)
  end
end
