-- Deletes keys of a user who has been disabled since a certain time: those of one channel, or finally the user.
--
-- Atomic: the check of `disabled` and the deletion. A user who is restored, even between two calls, keeps the rest; one
-- who was disabled again has another time. The user is deleted after the last channel, so that after a crash the rest is
-- found again.
--
-- KEYS  1 user  2 channels  3 removed_channels  4 arrivals  5 arrivals_more  6.. doomed: keys to delete: of a channel
--       its posts first
-- ARGV  1 since: disabled (Unix time)  2 uid: of the channel, or '' for the user, all of whose remaining keys are given
-- reply 0: not disabled since then, or there are channels left; 1
-- include: arrivals
local disabled = redis.call('HGET', KEYS[1], 'disabled')
if not disabled or tonumber(disabled) ~= tonumber(ARGV[1]) then return 0 end
if ARGV[2] ~= '' then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[6], 0, -1)) do departs(id) end
  note_arrivals(KEYS[4], KEYS[5], 0)
  redis.call('ZREM', KEYS[2], ARGV[2])
  redis.call('ZREM', KEYS[3], ARGV[2])
  redis.call('HDEL', KEYS[1], 'rule_count')
elseif redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then
  return 0
end
for i = 6, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 1
