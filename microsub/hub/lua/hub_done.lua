-- Ends or extends claims of the hub's work.
--
-- Atomic: work that was planned during the claim is done again; a claim that another worker has taken over is theirs.
--
-- KEYS  1 due  2 claims
-- ARGV  1 token of the claim  2 when to do what was planned during the claim
--       3.. per member: member, and 'done', 'keep <time>' or 'later <time>'
-- reply the members that another worker has claimed
local lost = {}
for i = 3, #ARGV, 2 do
  local member, verb, time = ARGV[i], string.match(ARGV[i + 1], '^(%w+) ?(.*)$')
  local token, again = string.match(redis.call('HGET', KEYS[2], member) or '', '^(%S+) ?(.*)$')
  if token ~= ARGV[1] then
    lost[#lost + 1] = member
  elseif verb == 'keep' then
    redis.call('ZADD', KEYS[1], time, member)
  else
    redis.call('HDEL', KEYS[2], member)
    if again == 'again' then
      redis.call('ZADD', KEYS[1], ARGV[2], member)
    elseif verb == 'later' then
      redis.call('ZADD', KEYS[1], time, member)
    else
      redis.call('ZREM', KEYS[1], member)
    end
  end
end
return lost
