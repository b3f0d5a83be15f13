-- Removes the named items from one channel or from all, for the given reason; or removes from one channel the oldest
-- ones, down to a number.
--
-- Atomic: an item leaves posts, unread, read and hidden and enters `gone` in the same step, so no add can bring it back
-- in between. Unknown items are ignored: an item that was never added needn't be remembered.
-- All conditions are checked here and not by the caller: an item that was just read isn't removed as unread, one that
-- was just marked unread doesn't expire as read, and an earlier unfollow takes nothing from a new subscription. Items
-- added at the same time don't change which ones are beyond the limit.
--
-- KEYS  1 channels  2 arrivals  3 arrivals_more  4 live_events  5 removed?: to include removed channels
-- ARGV  1-6 patterns: parts/channels.lua  7 uid: or 'global'  8 now: in whole seconds  9 reason  10 which?: '' or
--       'unread': only these; 'read': those that were read by a time; 'over': the oldest ones  11 feed?: or ''
--       12 feeds?: the key of the channel's feeds: only if the feed isn't followed there  13.. rest: ids; with 'read'
--       after that Unix time; with 'over' the number to keep, and how many to remove now
-- reply {'id id …' that left, number of ids that were examined, the first ones}, or -1: no such channel
-- include: channels
-- include: reasons
-- include: gone
-- include: unread_changes
-- include: readings
-- include: reading_changes
-- include: arrivals
-- include: events
-- include: timeline
local all = channels_named(ARGV[7], KEYS[5])
if not all then return -1 end
local seconds, reason, which = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]
if ARGV[11] ~= '' and redis.call('HEXISTS', ARGV[12], ARGV[11]) == 1 then return { '', #ARGV } end
local ids = {}

local function add(some)
  for _, id in ipairs(some) do ids[#ids + 1] = id end
end

if which == 'over' then
  for _, key in ipairs({ all[1].posts, all[1].hidden }) do
    local excess = math.min(redis.call('ZCARD', key) - tonumber(ARGV[13]), ARGV[14] - #ids)
    if excess > 0 then add(redis.call('ZRANGE', key, 0, excess - 1)) end
  end
else
  local first = which == 'read' and 14 or 13
  for i = first, first - 1 + share(all, #ARGV - first + 1) do ids[i - first + 1] = ARGV[i] end
end
if #ids == 0 then return { '', 0 } end
local gone, out = {}, {}

for _, sets in ipairs(all) do
  local posts = redis.call('ZMSCORE', sets.posts, unpack(ids))
  local hidden = redis.call('ZMSCORE', sets.hidden, unpack(ids))
  local going = {}
  for i, id in ipairs(ids) do
    local goes = which == 'over' or posts[i] or hidden[i]
    if which == 'read' then
      local read_at = reading_time(sets.read, id) or reading_time(sets.hidden_read, id)
      goes = read_at and tonumber(read_at) <= tonumber(ARGV[13])
    elseif goes and which == 'unread' then
      goes = not reading_time(posts[i] and sets.read or sets.hidden_read, id)
    end
    if goes then
      going[#going + 1] = id
      if not gone[id] then
        gone[id] = true
        out[#out + 1] = id
      end
    end
  end
  leave(sets, going, reason)
end
note_all(2, seconds)
return { table.concat(out, ' '), #ids }
