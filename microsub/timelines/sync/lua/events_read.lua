-- The events of a user after a given one, with the data that apps get about their channels and items.
--
-- Atomic: one snapshot of the token, the events, and the state of channels and items, however old the events are.
-- Writes nothing.
--
-- KEYS  1 live_events  2 channels  3 user  4 token  5 behind  6 saved: its posts
-- ARGV  1 now  2 after: id of the last entry that was read  3 limit: how many entries  4-6 patterns: channel, posts,
--       unread  7 item: '', or the item up to which that entry was read: then the reply begins with that entry, with
--       its newer items
-- reply {'token'} no such token, or expired; {'disabled'} the user; {'lost'} that entry isn't kept any more; else
--       {'', scopes, 1 if posts wait to be added to timelines of this user, entries, channels, uids}. An entry is
--       {id, event, uid, 'id id …' of its items that the channel still shows, newest first, '01…' one digit per item, 1
--       for unread, '01…' 1 for saved, 1 if it says that the order of channels has changed}; then the existing channels
--       among them {uid, name, style, unread}; and all uids in their order, if an entry is about it
-- include: active
-- include: unread
local scope = scope_of(KEYS[4], ARGV[1])
if not scope then return { 'token' } end
if redis.call('HEXISTS', KEYS[3], 'disabled') == 1 then return { 'disabled' } end
local rows = redis.call('XRANGE', KEYS[1], ARGV[2], '+', 'COUNT', ARGV[3] + 1)
if #rows == 0 or rows[1][1] ~= ARGV[2] then return { 'lost' } end
local entries, channels, known, uids = {}, {}, {}, {}

local function key(pattern, uid) return (string.gsub(ARGV[pattern], '%*', uid)) end

local function note_head(uid)
  if known[uid] then return end
  known[uid] = true
  local head = redis.call('HMGET', key(4, uid), 'name', 'removed', 'unread')
  if head[1] and not head[2] then
    channels[#channels + 1] = { uid, head[1], head[3] or '', count_unread(key(6, uid)) }
  end
end

-- The ids that the channel shows, and their state; only those before the item `up_to`.
local function standing(uid, came, up_to)
  local ids, shown, unread, saved = {}, {}, {}, {}
  for id in string.gmatch(came, '%d+') do
    if id == up_to then break end
    ids[#ids + 1] = id
  end
  if #ids == 0 then return '', '', '' end
  local posts = redis.call('ZMSCORE', key(5, uid), unpack(ids))
  local states = are_unread(key(6, uid), ids)
  local kept = redis.call('ZMSCORE', KEYS[6], unpack(ids))
  for i, id in ipairs(ids) do
    if posts[i] then
      local at = #shown + 1
      shown[at], unread[at], saved[at] = id, states[i] and '1' or '0', kept[i] and '1' or '0'
    end
  end
  return table.concat(shown, ' '), table.concat(unread), table.concat(saved)
end

for i = ARGV[7] == '' and 2 or 1, #rows do
  local fields = {}
  for at = 1, #rows[i][2], 2 do fields[rows[i][2][at]] = rows[i][2][at + 1] end
  local uid = fields.channel or ''
  if uid ~= '' then note_head(uid) end
  if fields.order then uids = redis.call('ZRANGE', KEYS[2], 0, -1) end
  local ids, unread, saved = standing(uid, fields.came or '', i == 1 and ARGV[7])
  entries[#entries + 1] = { rows[i][1], fields.event, uid, ids, unread, saved, fields.order and 1 or 0 }
end
return { '', scope, redis.call('EXISTS', KEYS[5]), entries, channels, uids }
