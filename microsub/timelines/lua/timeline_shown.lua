-- Which of some items a channel, or any channel of a user, shows, and whether they are read.
--
-- Atomic: ids and read flags are of one moment. What is hidden by a mute isn't shown. Writes nothing.
--
-- KEYS  1 channels  2 behind
-- ARGV  1, 2, 3 patterns: channel, posts, unread  4 uid or 'global'  5.. ids, 1000 at most
-- reply {'channel'} no such channel or user; else {'', {uid, name, …} of the channels that occur, 'place …' one per id:
--       which of these channels shows it, from 1, 0 for none, '01…' one digit per id, 1 for unread, 1 when posts wait to be
--       brought into timelines of this user}. An item is unread when it is unread in any channel, and such a one is named.
local uids = redis.call('ZRANGE', KEYS[1], 0, -1)
if #uids == 0 then return { 'channel' } end
if ARGV[4] ~= 'global' then
  local head = redis.call('HMGET', (string.gsub(ARGV[1], '%*', ARGV[4])), 'name', 'removed')
  if not head[1] or head[2] then return { 'channel' } end
  uids = { ARGV[4] }
end

local count = #ARGV - 4
local places, flags, names, named = {}, {}, {}, 0
for i = 1, count do
  places[i] = 0
  flags[i] = '0'
end
for _, uid in ipairs(count > 0 and uids or {}) do
  local scores = redis.call('ZMSCORE', (string.gsub(ARGV[2], '%*', uid)), unpack(ARGV, 5))
  local ids, at = {}, {}
  for i = 1, count do
    if scores[i] then
      ids[#ids + 1] = ARGV[4 + i]
      at[#at + 1] = i
    end
  end
  if #ids > 0 then
    named = named + 1
    names[2 * named - 1] = uid
    names[2 * named] = redis.call('HGET', (string.gsub(ARGV[1], '%*', uid)), 'name')
    local unread = redis.call('ZMSCORE', (string.gsub(ARGV[3], '%*', uid)), unpack(ids))
    for j = 1, #ids do
      local i = at[j]
      if places[i] == 0 or (unread[j] and flags[i] == '0') then places[i] = named end
      if unread[j] then flags[i] = '1' end
    end
  end
end
return { '', names, table.concat(places, ' '), table.concat(flags), redis.call('EXISTS', KEYS[2]) }
