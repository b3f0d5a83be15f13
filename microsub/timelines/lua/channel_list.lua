-- All channels of a user with their names, settings and unread counts.
--
-- Atomic: all is of one moment, and the shape (channel_change.lua) is the one of that moment. Writes nothing.
--
-- KEYS  1 channels  2 user
-- ARGV  1, 2 patterns: channel, unread
-- reply {shape, uid, name, settings or '', unread, uid, …} by position
local user = redis.call('HMGET', KEYS[2], 'created', 'shape')
local reply = { (user[1] or '') .. ' ' .. (user[2] or '') }
local at = 1
for _, uid in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local head = redis.call('HMGET', (string.gsub(ARGV[1], '%*', uid)), 'name', 'settings')
  reply[at + 1] = uid
  reply[at + 2] = head[1] or uid
  reply[at + 3] = head[2] or ''
  reply[at + 4] = redis.call('ZCARD', (string.gsub(ARGV[2], '%*', uid)))
  at = at + 4
end
return reply
