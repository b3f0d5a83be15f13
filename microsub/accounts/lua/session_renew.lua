-- Gives a session a new secret: its record is copied to another digest.
--
-- Atomic: of several requests with the old secret one makes the copy; a session that ended meanwhile isn't renewed. The
-- old record names the new one, and is kept until the new secret has been used once, or until its own last day ends.
--
-- KEYS  1 old  2 new  3 sessions
-- ARGV  1 old_digest  2 new_digest  3 now  4 salt: of the new one  5 life: seconds that the new one lives  6 overlap:
--       seconds for the old one
-- reply 0: there is none; 1
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if redis.call('HSETNX', KEYS[1], 'next', ARGV[2]) == 0 then return 1 end
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  if fields[i] ~= 'next' and fields[i] ~= 'previous' then redis.call('HSET', KEYS[2], fields[i], fields[i + 1]) end
end
redis.call('HSET', KEYS[2], 'previous', ARGV[1], 'renewed', ARGV[3], 'seen', ARGV[3], 'salt', ARGV[4])
redis.call('EXPIRE', KEYS[2], ARGV[5])
redis.call('EXPIRE', KEYS[1], ARGV[6])
redis.call('SADD', KEYS[3], ARGV[2])
redis.call('EXPIRE', KEYS[3], ARGV[5])
return 1
