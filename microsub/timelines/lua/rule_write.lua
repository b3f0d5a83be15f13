-- Writes or deletes one rule (mute or block).
--
-- Atomic: the existence of the user and channel, the count of all rules, and the rule. The count is stored with the
-- user, because thousands of channels may have rules; removing or restoring a channel deletes it.
--
-- KEYS  1 channels  2 rules  3 user
-- ARGV  1 uid: or 'global'  2 url: in its comparison form  3 given?: URL as it was entered, '' to delete the rule
--       4 most: limit of rules in all channels together, 0 for none  5, 6 patterns: mutes, blocks of a channel
--       7 counts: 1 if the rule counts, 0 in a removed channel
-- reply -1: no such channel; 1 changed; 0 no change; 2 + count: there are count rules, the limit is reached
if ARGV[1] == 'global' then
  if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
elseif not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return -1
end
local function counted()
  local known = redis.call('HGET', KEYS[3], 'rule_count')
  if known then return tonumber(known) end
  local uids, count = redis.call('ZRANGE', KEYS[1], 0, -1), 0
  uids[#uids + 1] = 'global'
  for _, uid in ipairs(uids) do
    for kind = 5, 6 do count = count + redis.call('HLEN', (string.gsub(ARGV[kind], '%*', uid))) end
  end
  if redis.call('EXISTS', KEYS[3]) == 1 then redis.call('HSET', KEYS[3], 'rule_count', count) end
  return count
end
local most = tonumber(ARGV[4])
if most > 0 and ARGV[3] ~= '' and redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then
  local count = counted()
  if count >= most then return 2 + count end
end
local deletes = ARGV[3] == ''
local changed = deletes and redis.call('HDEL', KEYS[2], ARGV[2]) or redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
if changed == 1 and ARGV[7] == '1' and redis.call('HEXISTS', KEYS[3], 'rule_count') == 1 then
  redis.call('HINCRBY', KEYS[3], 'rule_count', deletes and -1 or 1)
end
return changed
