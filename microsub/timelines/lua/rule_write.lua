-- Writes or deletes one rule (mute or block).
--
-- Atomic: the existence of the user and channel, the count of all rules, and the rule.
--
-- KEYS  1 channels  2 the hash of rules
-- ARGV  1 uid or 'global'  2 URL in its comparison form  3 URL as it was given, '' to delete the rule
--       4 how many rules all channels together may have, 0 for any number  5, 6 patterns: mutes, blocks of a channel
-- reply -1: no such channel; 1 changed; 0 was so; 2 + count: there are that many rules, and no more may be
if ARGV[1] == 'global' then
  if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
elseif not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return -1
end
if ARGV[3] == '' then return redis.call('HDEL', KEYS[2], ARGV[2]) end
local most = tonumber(ARGV[4])
if most > 0 and redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  local uids = redis.call('ZRANGE', KEYS[1], 0, -1)
  uids[#uids + 1] = 'global'
  local count = 0
  for _, uid in ipairs(uids) do
    for kind = 5, 6 do count = count + redis.call('HLEN', (string.gsub(ARGV[kind], '%*', uid))) end
  end
  if count >= most then return 2 + count end
end
return redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
