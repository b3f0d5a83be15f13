-- All channels of a user with their names, settings and unread counts.
--
-- Atomic: all is of one moment, and the shape (channel_change.lua) is the one of that moment. Writes nothing.
--
-- KEYS  1 channels  2 user
-- ARGV  1, 2 patterns: channel, unread  3.. the fields of a channel that are wanted
-- reply {shape, uid, unread, {the fields' values}, uid, …} by position
local user = redis.call('HMGET', KEYS[2], 'created', 'shape')
local reply = { (user[1] or '') .. ' ' .. (user[2] or '') }
local at = 1
for _, uid in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  reply[at + 1] = uid
  reply[at + 2] = redis.call('ZCARD', (string.gsub(ARGV[2], '%*', uid)))
  reply[at + 3] = redis.call('HMGET', (string.gsub(ARGV[1], '%*', uid)), unpack(ARGV, 3))
  at = at + 3
end
return reply
