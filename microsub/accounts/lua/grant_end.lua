-- Ends a grant to an app: its refresh token and its access tokens.
--
-- Atomic: all tokens are deleted together, so that a renewal finds either all or nothing.
--
-- KEYS  1 grant  2 grants  3 tokens
-- ARGV  1 id: of the grant  2 token_pattern
-- reply 0: no such grant; 1
-- include: grants
return end_grant(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2])
