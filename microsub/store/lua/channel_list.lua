-- All channels of a user with their unread counts, and the check of the token: the other request that readers make all
-- the time, so it costs one round trip and two commands per channel.
--
-- Atomic: the counts are of one moment. Writes nothing.
--
-- KEYS  1 channels  2 user  3 token (3 only with a token)
-- ARGV  1, 2 patterns: channel, unread  3 now
-- reply {'token'}, {'disabled'}, or {'', scopes or '', uid, name, settings or '', unread, uid, …} by position
local scope = ''
if KEYS[3] then
  local token = redis.call('HMGET', KEYS[3], 'scope', 'expires')
  if not token[1] or (token[2] and tonumber(token[2]) <= tonumber(ARGV[3])) then return { 'token' } end
  if redis.call('HEXISTS', KEYS[2], 'disabled') == 1 then return { 'disabled' } end
  scope = token[1]
end
-- Joining pieces costs two thirds of replacing the star in each key.
local call = redis.call
local star = string.find(ARGV[1], '*', 1, true)
local head_of, head_end = string.sub(ARGV[1], 1, star - 1), string.sub(ARGV[1], star + 1)
star = string.find(ARGV[2], '*', 1, true)
local count_of, count_end = string.sub(ARGV[2], 1, star - 1), string.sub(ARGV[2], star + 1)
local reply = { '', scope }
local at = 2
for _, uid in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local head = call('HMGET', head_of .. uid .. head_end, 'name', 'settings')
  reply[at + 1] = uid
  reply[at + 2] = head[1] or uid
  reply[at + 3] = head[2] or ''
  reply[at + 4] = call('ZCARD', count_of .. uid .. count_end)
  at = at + 4
end
return reply
