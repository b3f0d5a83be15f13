-- Sets and deletes fields of a record that is still there: of a user, a session, a grant, a token.
--
-- Atomic: the check and the write, so that nothing is written beside a user that was never made, and a record that has
-- ended meanwhile isn't made again. Where it is about who the user is, what their former provider said of tokens goes in
-- the same moment.
--
-- KEYS  1 record  2.. keys that live as long; or 2 foreign  3.. networks, and what else was given to that person, where
--       these are to go
-- ARGV  1 field by which the record is known  2 seconds that all keys live from now on, or ''  3 pattern: token, where what
--       is remembered of other providers' tokens is to go, or ''  4.. pairs of field and value; an empty value deletes the
--       field, but for the one by which the record is known
-- reply 0: there is none; 1
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
for i = 4, #ARGV, 2 do
  if ARGV[i + 1] == '' and ARGV[i] ~= ARGV[1] then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
if ARGV[2] ~= '' then
  for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[2]) end
end
if ARGV[3] ~= '' then
  for _, digest in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    redis.call('DEL', (string.gsub(ARGV[3], '%*', digest)))
  end
  for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
end
return 1
