-- Finds items that another channel shows as read, itself or a duplicate, if the user's posts that are read in one
-- channel are read everywhere; and marks those that came unread into the channel, muted ones too, as read.
--
-- Atomic: an item's move between unread and read. `saved` decides nothing, since items come there as read.
--
-- KEYS  1 channels  2 live_events  3 user
-- ARGV  1-6 patterns: parts/channels.lua  7 uid  8 how: 'find' or 'mark'  9 now  10.. items: 'id id …', the item and its
--       duplicates
-- reply {number of items that were examined, the first ones, 'id id …' of those that are read elsewhere}
-- include: channels
-- include: events
-- include: unread
-- include: unread_changes
-- include: readings
-- include: reading_changes
local MOST_LOOKS = 10000
if redis.call('HGET', KEYS[3], 'read_everywhere') ~= 'yes' then return { #ARGV - 9, '' } end
local others = {}
for _, sets in ipairs(channels_named('global') or {}) do
  if sets.uid ~= ARGV[7] and sets.uid ~= 'saved' then others[#others + 1] = sets end
end
if #others == 0 then return { #ARGV - 9, '' } end
local ids, owners, at, looks = {}, {}, 10, 0
while at <= #ARGV and looks < MOST_LOOKS and #ids < 900 do
  local item = nil
  for id in string.gmatch(ARGV[at], '%S+') do
    item = item or id
    ids[#ids + 1], owners[#ids + 1] = id, item
  end
  at, looks = at + 1, #ids * #others
end
local target, is_read, out, found = sets_of(ARGV[7]), {}, {}, {}
for _, sets in ipairs(others) do
  local open = are_unread(sets.unread, ids)
  for i, score in ipairs(redis.call('ZMSCORE', sets.posts, unpack(ids))) do
    if score and not open[i] then is_read[owners[i]] = true end
  end
end
for item in pairs(is_read) do
  found[#found + 1] = item
  if ARGV[8] == 'mark' then
    if drop_unread(target.unread, item) == 1 then
      out[#out + 1] = item
    elseif redis.call('ZSCORE', target.hidden, item) then
      note_readings(target.hidden_read, ARGV[9], { item })
    end
  end
end
if #out > 0 then
  note_readings(target.read, ARGV[9], out, true)
  changed(target)
  note_changes(KEYS[2])
end
return { at - 10, table.concat(found, ' ') }
