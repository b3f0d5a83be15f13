-- Writes or deletes one rule (mute or block).
--
-- Atomic: the existence of the user and channel and the rule.
--
-- KEYS  1 channels  2 the hash of rules
-- ARGV  1 uid or 'global'  2 URL in its comparison form  3 URL as it was given, '' to delete the rule
-- reply -1: no such channel; 1 changed; 0 was so
if ARGV[1] == 'global' then
  if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
elseif not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return -1
end
if ARGV[3] == '' then return redis.call('HDEL', KEYS[2], ARGV[2]) end
return redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
