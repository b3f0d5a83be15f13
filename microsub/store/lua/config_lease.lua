-- Extends or gives back the lease on applying the configuration, for the one who holds it.
--
-- Atomic: the look at the token and the change, so that nobody touches a lease that has passed to another process.
--
-- KEYS  1 config:lease
-- ARGV  1 token  2 milliseconds from now, or 0 to give it back
-- reply 1, or 0: the lease is another's, or nobody's
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
