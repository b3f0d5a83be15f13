-- The ids of all items that a channel, or any channel of a user, shows, up to a limit.
--
-- Atomic: one snapshot of the ids. Writes nothing.
--
-- KEYS  1 channels  2 behind
-- ARGV  1, 2 patterns: channel, posts  3 uid: or 'global'  4 most: how many ids at most
-- reply 0 no such channel or user; otherwise {1 if posts wait to be added to timelines of this user, and unless there
--       are more 'id id …', with an item in several channels repeated}
-- include: active
local uids = redis.call('ZRANGE', KEYS[1], 0, -1)
if #uids == 0 then return 0 end
if ARGV[3] ~= 'global' then
  if not is_channel((string.gsub(ARGV[1], '%*', ARGV[3]))) then return 0 end
  uids = { ARGV[3] }
end
local left, waiting = tonumber(ARGV[4]), redis.call('EXISTS', KEYS[2])
for _, uid in ipairs(uids) do
  left = left - redis.call('ZCARD', (string.gsub(ARGV[2], '%*', uid)))
  if left < 0 then return { waiting } end
end
local found = {}
for _, uid in ipairs(uids) do
  found[#found + 1] = table.concat(redis.call('ZRANGE', (string.gsub(ARGV[2], '%*', uid)), 0, -1), ' ')
end
return { waiting, table.concat(found, ' ') }
