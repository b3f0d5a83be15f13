-- Gives a lease back.
--
-- Atomic: only whoever holds it can; a lease that ran out and was taken by somebody else is theirs.
--
-- KEYS  1 lease
-- ARGV  1 token
-- reply 1 where it was given back, else 0
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
