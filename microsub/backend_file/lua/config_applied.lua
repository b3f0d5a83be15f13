-- Records the configuration that was just applied, unless another process was faster or the file is an older one.
--
-- Atomic: the check of the recorded configuration and the write, so if two processes have two files, the newer wins.
--
-- KEYS  1 applied
-- ARGV  1 former: hash that is expected to be recorded ('' for none)  2 edited_at: time of the file's last edit
--       3.. fields: pairs of field and value
-- reply 1, or 0: another configuration is recorded; -1: the recorded one is from a later edit
local hash = redis.call('HGET', KEYS[1], 'hash') or ''
if hash ~= ARGV[1] then return 0 end
local edited = tonumber(redis.call('HGET', KEYS[1], 'mtime') or '0') or 0
if tonumber(ARGV[2]) < edited then return -1 end
for i = 3, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('HDEL', KEYS[1], 'begun', 'writing')
return 1
