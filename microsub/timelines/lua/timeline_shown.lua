-- The given items that a channel, or any channel of a user, shows, and whether they are read and saved.
--
-- Atomic: the state of a channel. Thousands of channels are visited in several calls, so that none blocks Redis: an
-- item that moves meanwhile may be missed. Items hidden by a mute don't count as shown. Writes nothing.
--
-- KEYS  1 channels  2 saved: its posts
-- ARGV  1-3 patterns: channel, posts, unread  4 apart: the pattern, if items that the user hides in "All" don't count, or
--       ''  5 uid: or 'global'  6 visited: number of channels visited before  7.. ids
-- reply {'channel'} no such channel or user; otherwise {'', {uid, name, …} of the channels that occur, 'place …' one
--       per id: which of these channels shows it, from 1, 0 for none, '01…' one digit per id, 1 for unread, '01…' 1 for
--       saved, 'score …' one per id, '-' for none, how many channels were visited, or 0 if all were}. An item is unread
--       if it is unread in any channel, and then such a channel is named.
-- include: active
-- include: unread
local MOST_STEPS = 10000
local uids = redis.call('ZRANGE', KEYS[1], 0, -1)
if #uids == 0 then return { 'channel' } end
if ARGV[5] ~= 'global' then
  if not is_channel((string.gsub(ARGV[1], '%*', ARGV[5]))) then return { 'channel' } end
  uids = { ARGV[5] }
end

local count, visited = #ARGV - 6, tonumber(ARGV[6])
local places, flags, saved, stands, names, named = {}, {}, {}, {}, {}, 0
local of_saved = -1 -- an item is named after the channel that it was saved from, if it is still there
for i = 1, count do
  places[i] = 0
  flags[i], stands[i] = '0', '-'
end
local last = count == 0 and visited or math.min(#uids, visited + math.max(1, math.floor(MOST_STEPS / count)))
for n = visited + 1, last do
  local uid = uids[n]
  local scores = redis.call('ZMSCORE', (string.gsub(ARGV[2], '%*', uid)), unpack(ARGV, 7))
  local apart = ARGV[4] ~= '' and (string.gsub(ARGV[4], '%*', uid))
  local hidden = apart and redis.call('EXISTS', apart) == 1 and redis.call('SMISMEMBER', apart, unpack(ARGV, 7))
  local ids, at = {}, {}
  for i = 1, count do
    if scores[i] and not (hidden and hidden[i] == 1) then
      stands[i] = scores[i]
      ids[#ids + 1] = ARGV[6 + i]
      at[#at + 1] = i
    end
  end
  if #ids > 0 then
    named = named + 1
    names[2 * named - 1] = uid
    if uid == 'saved' then of_saved = named end
    names[2 * named] = redis.call('HGET', (string.gsub(ARGV[1], '%*', uid)), 'name')
    local unread = are_unread((string.gsub(ARGV[3], '%*', uid)), ids)
    for j = 1, #ids do
      local i = at[j]
      if places[i] == 0 or places[i] == of_saved or (unread[j] and flags[i] == '0') then places[i] = named end
      if unread[j] then flags[i] = '1' end
    end
  end
end
if count > 0 then
  saved = redis.call('ZMSCORE', KEYS[2], unpack(ARGV, 7))
  for i = 1, count do saved[i] = saved[i] and '1' or '0' end
end
if last >= #uids or count == 0 then last = 0 end
local kept = table.concat(saved, '', 1, count)
return { '', names, table.concat(places, ' '), table.concat(flags), kept, table.concat(stands, ' '), last }
