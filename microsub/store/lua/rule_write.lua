-- Writes or deletes one rule (mute or block).
--
-- Atomic: the existence of the user and channel and the rule.
--
-- KEYS  1 channels  2 the set of rules
-- ARGV  1 uid or 'global'  2 'SADD' or 'SREM'  3 URL
-- reply -1: no such channel; 1 changed; 0 was so
if ARGV[1] == 'global' then
  if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
elseif not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return -1
end
return redis.call(ARGV[2], KEYS[2], ARGV[3])
