-- Writes a feed's agreement with its hub, and the fields of the feed's health that depend on it.
--
-- Atomic: nothing is written if the feed is gone or the field that the change depends on has changed, so a verification
-- and a concurrent renewal don't undo each other; health and agreement always match.
--
-- KEYS  1 feed  2 feed_websub: its agreement
-- ARGV  1 life: time to live if the feed no longer exists  2 field?: of the second key, or ''  3 value?: its value as
--       it was read  4 count: how many fields of the second key follow  5.. fields: per field: name, '1' to set or ''
--       to delete, value; then the fields of the feed
-- reply 1 if it was written, else 0
-- include: fields
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then return 0 end
local behind = 5 + 3 * ARGV[4]
for at = 5, #ARGV, 3 do
  set_field(at < behind and KEYS[2] or KEYS[1], ARGV[at], ARGV[at + 1] == '1' and ARGV[at + 2])
end
-- A feed that nobody follows expires as a whole.
local ttl = redis.call('TTL', KEYS[1])
if ttl ~= -1 then redis.call('EXPIRE', KEYS[2], ttl < 1 and ARGV[1] or ttl) end
return 1
