-- A part of a user's order of arrival, with the state of each item, and optionally the check of the token.
--
-- Atomic: one snapshot of token, order and states. Writes nothing. An item of `global` is unread if it is unread in any
-- channel, as on its pages; items that only removed channels show are left out. Each channel is read in the cheaper
-- way: item by item, or all its unread items at once.
--
-- KEYS  1 channels  2 removed_channels  3 arrivals  4 saved: its posts  5 user  6 token?  7 behind?
-- ARGV  1 limit  2 order: 'newest' or 'oldest' first  3 after: the position after which to begin, '' for the end
--       4 uid: or 'global'  5, 6 patterns: posts, unread  7 now
-- reply {'token'} no such token, or expired; {'disabled'} the user; {'channel'} no such channel or user; else {'',
--       scopes or '', 1 if posts wait to be added to timelines of this user or the order isn't kept yet, 'id position id position …', three texts
--       of one digit per id, 1 if it is unread, is saved, is in the channel, and 1 if more follow}
-- include: active
-- include: kept
-- include: unread
local MOST_ASKED = 10000
local uid, scope, waiting = ARGV[4], '', 0
if KEYS[6] then
  scope = scope_of(KEYS[6], ARGV[7])
  if not scope then return { 'token' } end
  if redis.call('HEXISTS', KEYS[5], 'disabled') == 1 then return { 'disabled' } end
  waiting = (redis.call('EXISTS', KEYS[7]) == 1 or not is_kept(KEYS[3] .. ':more')) and 1 or 0
end
local uids = redis.call('ZRANGE', KEYS[1], 0, -1)
if #uids == 0 or (uid ~= 'global' and not redis.call('ZSCORE', KEYS[1], uid)) then return { 'channel' } end
local function posts(of) return (string.gsub(ARGV[5], '%*', of)) end
local function unread(of) return (string.gsub(ARGV[6], '%*', of)) end
local asked = uid == 'global' and uids or { uid }
local most = math.min(tonumber(ARGV[1]), math.max(20, math.floor(MOST_ASKED / #asked)))

local rows
if ARGV[2] == 'oldest' then
  local first = ARGV[3] == '' and '-inf' or '(' .. ARGV[3]
  rows = redis.call('ZRANGEBYSCORE', KEYS[3], first, '+inf', 'WITHSCORES', 'LIMIT', 0, most + 1)
else
  local first = ARGV[3] == '' and '+inf' or '(' .. ARGV[3]
  rows = redis.call('ZREVRANGEBYSCORE', KEYS[3], first, '-inf', 'WITHSCORES', 'LIMIT', 0, most + 1)
end
local ids, at = {}, {}
for i = 1, math.min(most, #rows / 2) do
  ids[i] = rows[2 * i - 1]
  at[ids[i]] = i
end
if #ids == 0 then return { '', scope, waiting, '', '', '', '', 0 } end

-- How a kind of sets is read: the number of its members, all of them, and a value for each that is asked for.
local of_unread = { count_unread, unread_ids, are_unread }
local of_posts = {
  function(key) return redis.call('ZCARD', key) end,
  function(key) return redis.call('ZRANGE', key, 0, -1) end,
  function(key, some) return redis.call('ZMSCORE', key, unpack(some)) end,
}

-- One digit for each of the ids: 1 if one of these sets contains it.
local function digits(keys, kind)
  local count, all, among = unpack(kind)
  local found, left = {}, ids
  for i = 1, #ids do found[i] = '0' end
  for _, key in ipairs(keys) do
    local size = #left > 0 and count(key) or 0
    if size > 0 and size < #left then
      for _, id in ipairs(all(key)) do
        if at[id] then found[at[id]] = '1' end
      end
    elseif size > 0 then
      local further = {}
      for i, there in ipairs(among(key, left)) do
        if there then found[at[left[i]]] = '1' else further[#further + 1] = left[i] end
      end
      left = further
    end
  end
  return table.concat(found)
end

local function keys_of(key, of)
  local keys = {}
  for i, one in ipairs(of) do keys[i] = key(one) end
  return keys
end

local stands = string.rep('1', #ids)
if uid ~= 'global' or redis.call('EXISTS', KEYS[2]) == 1 then stands = digits(keys_of(posts, asked), of_posts) end
local pairs_ = table.concat(rows, ' ', 1, 2 * #ids)
local open, saved = digits(keys_of(unread, asked), of_unread), digits({ KEYS[4] }, of_posts)
return { '', scope, waiting, pairs_, open, saved, stands, #rows > 2 * most and 1 or 0 }
