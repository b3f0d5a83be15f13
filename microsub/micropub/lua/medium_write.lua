-- Stores a file that a source has sent.
--
-- Atomic: the check of the user's total and the write, so concurrent uploads can't exceed the quota. The file is listed
-- in the same step, because nobody could delete an unlisted file.
--
-- KEYS  1 user  2 media  3 medium
-- ARGV  1 token  2 data  3 size  4 type  5 digest  6 most: maximum bytes of all files, 0 for no limit  7 medium_pattern
-- reply the file's token, or that of a stored file with the same bytes; -1: no such user; else the bytes that are
--       already stored
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
local sum = 0
for _, token in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  local found = redis.call('HMGET', (string.gsub(ARGV[7], '%*', token)), 'size', 'digest')
  if found[2] == ARGV[5] then
    redis.call('HDEL', (string.gsub(ARGV[7], '%*', token)), 'unused')
    return token
  end
  sum = sum + (tonumber(found[1] or '') or 0)
end
if tonumber(ARGV[6]) > 0 and sum + tonumber(ARGV[3]) > tonumber(ARGV[6]) then return sum end
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[3], 'data', ARGV[2], 'size', ARGV[3], 'type', ARGV[4], 'digest', ARGV[5])
return ARGV[1]
