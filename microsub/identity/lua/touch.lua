-- Sets a field of a hash that is still there.
--
-- Atomic: a record that has ended meanwhile isn't made again by the note.
--
-- KEYS  1 hash  2 set in which it is listed, if any
-- ARGV  1 field that must be there  2 field  3 value  4 seconds that all keys live from now on, or '' to leave them
-- reply 0: there is none; 1
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
if ARGV[4] ~= '' then
  for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[4]) end
end
return 1
