-- Sets and deletes fields of a user that exists.
--
-- Atomic: the check and the write, so that nothing is written beside a user that was never made. Where it is about who
-- the user is, what their former provider said of tokens goes in the same moment.
--
-- KEYS  1 user  2 foreign  3 networks (these only where what is remembered of other providers' tokens is to go)
-- ARGV  1 pattern: token  2.. pairs of field and value; an empty value deletes the field, but for `me`, by which a user's
--       record is known
-- reply 0: no such user; 1
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
for i = 2, #ARGV, 2 do
  if ARGV[i + 1] == '' and ARGV[i] ~= 'me' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
if KEYS[2] then
  for _, digest in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    redis.call('DEL', (string.gsub(ARGV[1], '%*', digest)))
  end
  redis.call('DEL', KEYS[2], KEYS[3])
end
return 1
