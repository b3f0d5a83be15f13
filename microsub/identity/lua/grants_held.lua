-- Counts what a user has let apps have, and the tokens beside it, as far as they haven't expired.
--
-- Atomic: the count, against a grant that is made or ends meanwhile.
--
-- KEYS  1 grants  2 tokens
-- ARGV  1 pattern of grant keys  2 pattern of token keys
-- reply the count
-- include: grants
return held(KEYS[1], KEYS[2], ARGV[1], ARGV[2])
