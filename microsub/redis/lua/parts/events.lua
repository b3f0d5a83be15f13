-- Entries of a user's event streams (timelines/sync/live_events.py), written in the same step as the change: so an
-- event is stored if and only if its change is.
--
-- changed(sets): items of that channel came, left, or changed their state; came_unread(sets, id): this one came as
-- unread. has_no_stream(sets): somebody has looked, and nothing of that channel needs to be noted.
-- note_changes(events) writes one entry for each such channel, with the items that came as unread, the newest first.
-- note_channel(events, what, uid, …) writes one for a channel itself. Readers of the entry get the unread count
-- themselves, so it is current, and costs nothing here. The stream exists only while an app listens, and for some hours
-- after (lua/events_open.lua): without a stream, a change costs one EXISTS.
local KEPT, MOST_CAME = 500, 100
local changed_channels, came_to, silent = {}, {}, {}

local function has_no_stream(sets) silent[sets] = true end

local function changed(sets)
  if silent[sets] or came_to[sets] then return end
  came_to[sets] = {}
  changed_channels[#changed_channels + 1] = sets
end

local function came_unread(sets, id)
  changed(sets)
  local ids = came_to[sets]
  if ids and #ids < MOST_CAME then ids[#ids + 1] = id end
end

local function note_channel(events, what, uid, ...)
  redis.call('XADD', events, 'NOMKSTREAM', 'MAXLEN', '~', KEPT, '*', 'event', what, 'channel', uid, ...)
end

local function note_changes(events)
  if #changed_channels == 0 or redis.call('EXISTS', events) == 0 then return end
  for _, sets in ipairs(changed_channels) do
    note_channel(events, 'items', sets.uid, 'came', table.concat(came_to[sets], ' '))
  end
end
