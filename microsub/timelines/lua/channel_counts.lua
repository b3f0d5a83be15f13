-- What is unread in all channels of a user, with the check of the token: the other request that readers make all the
-- time. It costs one command per channel; names and settings are those of the shape, which callers remember.
--
-- Atomic: the counts are of one moment, and the shape is the one of that moment. Writes nothing.
--
-- KEYS  1 channels  2 user  3 token  4 behind
-- ARGV  1 pattern: unread  2 now
-- reply {'token'}, {'disabled'}, or {'', scopes, shape, 'uid uid …' by position, 'unread unread …', 1 when posts wait to be
--       brought into timelines}
-- include: token
local scope = scope_of(KEYS[3], ARGV[2])
if not scope then return { 'token' } end
local user = redis.call('HMGET', KEYS[2], 'disabled', 'created', 'shape')
if user[1] then return { 'disabled' } end
local before, after = string.match(ARGV[1], '^(.*)%*(.*)$')
local uids = redis.call('ZRANGE', KEYS[1], 0, -1)
local counts = {}
for i, uid in ipairs(uids) do counts[i] = redis.call('ZCARD', before .. uid .. after) end
local shape = (user[2] or '') .. ' ' .. (user[3] or '')
local waiting = redis.call('EXISTS', KEYS[4])
return { '', scope, shape, table.concat(uids, ' '), table.concat(counts, ' '), waiting }
