-- Extends a lease, or gives it back.
--
-- Atomic: only its holder can; a lease that ran out and was taken by somebody else is theirs.
--
-- KEYS  1 lease
-- ARGV  1 token  2 milliseconds from now, 0 to give it back
-- reply 1 where it was ours, else 0
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
