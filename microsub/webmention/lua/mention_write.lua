-- Writes a webmention of a user, and when to check its source.
--
-- Atomic: the check of the stored value, the user and the limits, and the write to all three keys. So a webmention that
-- arrives again during a check of its source is checked once more, and no waiting webmention is lost.
--
-- KEYS  1 user  2 mentions  3 mentions_waiting  4 mentions_by_time
-- ARGV  1 id  2 read?: the webmention as it was read, or ''  3 value: its new value  4 look?: when to check its source,
--       or ''  5 now  6 most: how many may wait  7 kept: how many are kept
-- reply 1 written; 0 the stored value has changed; -1 the user doesn't exist or is disabled; -2 too many are waiting
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'disabled') == 1 then return -1 end
if (redis.call('HGET', KEYS[2], ARGV[1]) or '') ~= ARGV[2] then return 0 end
if ARGV[4] == '' then
  redis.call('ZREM', KEYS[3], ARGV[1])
else
  local waits = redis.call('ZSCORE', KEYS[3], ARGV[1])
  if not waits and redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[6]) then return -2 end
  redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[4], ARGV[5], ARGV[1])
if redis.call('HLEN', KEYS[2]) > tonumber(ARGV[7]) then
  -- One is written at a time, so one is removed: the oldest that isn't waiting.
  for _, id in ipairs(redis.call('ZRANGE', KEYS[4], 0, ARGV[6])) do
    if not redis.call('ZSCORE', KEYS[3], id) then
      redis.call('HDEL', KEYS[2], id)
      redis.call('ZREM', KEYS[4], id)
      break
    end
  end
end
return 1
