-- Notes when a token was used, at the grant that it came of, where there is one: its tokens come and go.
--
-- Atomic: a token or grant that has ended meanwhile isn't made again by the note.
--
-- KEYS  1 token
-- ARGV  1 now  2 pattern of grant keys
-- reply 0: nothing to note at; 1
local token = redis.call('HMGET', KEYS[1], 'scope', 'foreign', 'grant')
if not token[1] or token[2] then return 0 end
local place = KEYS[1]
if token[3] then place = string.gsub(ARGV[2], '%*', token[3]) end
if redis.call('EXISTS', place) == 0 then return 0 end
redis.call('HSET', place, 'used', ARGV[1])
return 1
