-- Remembers for a short time that a user's provider doesn't vouch for a token.
--
-- Atomic: with the note goes what was remembered of the token before; a token of our own stays.
--
-- KEYS  1 token  2 foreign  3 refused
-- ARGV  1 digest  2 reason  3 seconds
-- reply 1
if redis.call('HEXISTS', KEYS[1], 'foreign') == 1 then
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
redis.call('SET', KEYS[3], ARGV[2], 'EX', ARGV[3])
return 1
