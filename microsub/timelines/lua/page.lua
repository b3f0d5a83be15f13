-- A page of one timeline: one round trip with the check of the token.
--
-- Atomic: token, user, channel, ids, and read flags are of one moment, so a page never shows an item as unread that the
-- count of the same moment doesn't hold. Writes nothing.
--
-- KEYS  1 channel  2 the set to walk (posts or unread)  3 unread  4 user  5 token  6 behind (5 and 6 only with a token)
-- ARGV  1 limit  2 '', 'after' or 'before'  3, 4 score and id of the cursor  5 now
-- reply {'token'} no such token, or expired; {'disabled'} the user is; {'channel'} no such channel; else
--       {'', name, 1 when older items lie behind, 'id score id score …' newest first, '01…' one digit per id, 1 for
--       unread, scopes or '', 1 when posts wait to be brought into timelines of this user}
-- include: rank
-- include: token
local scope, waiting = '', 0
if KEYS[5] then
  scope = scope_of(KEYS[5], ARGV[5])
  if not scope then return { 'token' } end
  if redis.call('HEXISTS', KEYS[4], 'disabled') == 1 then return { 'disabled' } end
  waiting = redis.call('EXISTS', KEYS[6])
end
local head = redis.call('HMGET', KEYS[1], 'name', 'removed')
if not head[1] or head[2] then return { 'channel' } end

local walked = KEYS[2]
local limit = tonumber(ARGV[1])
local rows, older
if ARGV[2] == 'before' then
  local before = rank(walked, ARGV[3], ARGV[4])
  older = redis.call('ZCARD', walked) > before
  rows = before == 0 and {} or redis.call('ZREVRANGE', walked, math.max(0, before - limit), before - 1, 'WITHSCORES')
else
  local first = 0
  if ARGV[2] == 'after' then
    local before, stands = rank(walked, ARGV[3], ARGV[4])
    first = before + stands
  end
  rows = redis.call('ZREVRANGE', walked, first, first + limit, 'WITHSCORES')
  older = #rows > 2 * limit
end

local count = math.min(#rows / 2, limit)
if count == 0 then return { '', head[1], older and 1 or 0, '', '', scope, waiting } end
local flags
if walked == KEYS[3] then
  flags = string.rep('1', count)
else
  local ids = {}
  for i = 1, count do ids[i] = rows[2 * i - 1] end
  local marks = redis.call('ZMSCORE', KEYS[3], unpack(ids))
  for i = 1, count do marks[i] = marks[i] and '1' or '0' end
  flags = table.concat(marks, '', 1, count)
end
return { '', head[1], older and 1 or 0, table.concat(rows, ' ', 1, 2 * count), flags, scope, waiting }
