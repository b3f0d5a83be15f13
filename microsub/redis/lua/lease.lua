-- Extends a lease, or releases it.
--
-- Atomic: only its holder can; a lease that expired and was taken by another process is not touched.
--
-- KEYS  1 lease
-- ARGV  1 token  2 left: milliseconds from now, 0 to release it
-- reply 1 if it was ours, else 0
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
