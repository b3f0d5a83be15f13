-- Plans members of a calendar.
--
-- Atomic: a claimed member isn't given to another process; its claim notes that there is more to do.
--
-- KEYS  1, 2 shard: members by time; claims, with 'again <member>' -> when to do what was planned during the claim
-- ARGV  1 how: 'at' (replaces a planned time), 'sooner' (only by an earlier one), 'more' (keeps it) or 'missing' (keeps
--       it, also that of a claimed member)  2.. times: per member: member, time
-- reply nothing
for i = 2, #ARGV, 2 do
  local member, time = ARGV[i], ARGV[i + 1]
  local planned = redis.call('ZSCORE', KEYS[1], member)
  if planned and ARGV[1] ~= 'missing' and redis.call('HEXISTS', KEYS[2], member) == 1 then
    local again = redis.call('HGET', KEYS[2], 'again ' .. member)
    if not again or ARGV[1] == 'at' or tonumber(again) > tonumber(time) then
      redis.call('HSET', KEYS[2], 'again ' .. member, time)
    end
  elseif not planned or ARGV[1] == 'at' or ARGV[1] == 'sooner' and tonumber(planned) > tonumber(time) then
    redis.call('ZADD', KEYS[1], time, member)
  end
end
