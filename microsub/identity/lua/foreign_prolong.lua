-- Lets a token serve a little longer whose provider can't be asked.
--
-- Atomic: a record that has gone meanwhile, because the token was refused or the user changed, doesn't come back.
--
-- KEYS  1 token
-- ARGV  1 time until which it serves
-- reply 1; 0: there is no such record
if redis.call('HEXISTS', KEYS[1], 'foreign') == 0 then return 0 end
redis.call('HSET', KEYS[1], 'expires', ARGV[1])
return 1
