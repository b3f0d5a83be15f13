-- Extends or ends claims of a calendar.
--
-- Atomic: only the holder of the token can, and a member whose claim ends is planned in the same step.
--
-- KEYS  1, 2 shard: members by time; claims, with 'again <member>' -> when to do what was planned during the claim
-- ARGV  1.. ends: per member: member, token, what, time or '' for never
--       'keep'    the time is the claim's new end
--       'done'    the member is planned for that time, or as it was planned during the claim
--       'release' the member is planned for that time, whatever was planned during the claim
-- reply per member: 0 if the claim was lost, 2 if it has ended and the member was planned during it, else 1
local ends = {}
for i = 1, #ARGV, 4 do
  local member, what, time, is_again = ARGV[i], ARGV[i + 2], ARGV[i + 3], 0
  if redis.call('HGET', KEYS[2], member) ~= ARGV[i + 1] then
    ends[#ends + 1] = 0
  else
    if what ~= 'keep' then
      local again = redis.call('HGET', KEYS[2], 'again ' .. member)
      if again then is_again = 1 end
      if again and what == 'done' then time = again end
      redis.call('HDEL', KEYS[2], member, 'again ' .. member)
    end
    if time == '' then
      redis.call('ZREM', KEYS[1], member)
    else
      redis.call('ZADD', KEYS[1], time, member)
    end
    ends[#ends + 1] = 1 + is_again
  end
end
return ends
