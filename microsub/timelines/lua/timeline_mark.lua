-- Marks the named items read or unread, in one channel or wherever they are.
--
-- Atomic: an item's move between unread and read. An item that isn't in the timeline is ignored, so a mark that comes
-- after a removal creates nothing. A muted item that is named changes its flag too: it comes back as its reader left it.
--
-- KEYS  1 channels
-- ARGV  1-6 patterns (parts/channels.lua)  7 uid or 'global'  8 'read' or 'unread'  9 now  10.. ids
-- reply {number of items whose state changed (in any channel), number of ids that were looked at, the first ones}, or -1:
--       no such channel
-- include: channels
local all = channels_named(ARGV[7])
if not all then return -1 end
local now = ARGV[9]
local ids = {}
for i = 10, 9 + share(all, #ARGV - 9) do ids[i - 9] = ARGV[i] end
if #ids == 0 then return { 0, 0 } end
local changed, count = {}, 0

local function note(id)
  if not changed[id] then
    changed[id] = true
    count = count + 1
  end
end

local function mark_read(sets)
  local unread = redis.call('ZMSCORE', sets.unread, unpack(ids))
  local hidden = redis.call('ZMSCORE', sets.hidden, unpack(ids))
  for i, id in ipairs(ids) do
    if unread[i] then
      if redis.call('ZREM', sets.unread, id) == 1 then
        redis.call('ZADD', sets.read, now, id)
        note(id)
      end
    elseif hidden[i] and redis.call('ZADD', sets.hidden_read, 'NX', now, id) == 1 then
      note(id)
    end
  end
end

local function mark_unread(sets)
  local posts = redis.call('ZMSCORE', sets.posts, unpack(ids))
  local hidden = redis.call('ZMSCORE', sets.hidden, unpack(ids))
  for i, id in ipairs(ids) do
    if posts[i] then
      if redis.call('ZREM', sets.read, id) == 1 then
        redis.call('ZADD', sets.unread, posts[i], id)
        note(id)
      end
    elseif hidden[i] and redis.call('ZREM', sets.hidden_read, id) == 1 then
      note(id)
    end
  end
end

for _, sets in ipairs(all) do
  if ARGV[8] == 'read' then mark_read(sets) else mark_unread(sets) end
end
return { count, #ids }
