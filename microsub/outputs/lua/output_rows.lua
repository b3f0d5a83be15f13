-- The items that an output feed shows now, newest publication first: published, not too old, with impressions left.
--
-- Atomic: sets, impressions and replies that are being sent are of one moment. Writes nothing.
--
-- KEYS  1 output  2 published  3 imported  4 edited  5 impressions  6 editions  7 held
-- ARGV  1 now  2 earliest time of publication, or '-inf'  3 most items
-- reply 'id time edition hash' per item
-- include: held
local now, limit = tonumber(ARGV[1]), tonumber(ARGV[3])
local most = tonumber(redis.call('HGET', KEYS[1], 'max_impressions') or 0)
local held = most > 0 and held_now(KEYS[7], now) or {}
local found = redis.call('ZREVRANGEBYSCORE', KEYS[2], '+inf', ARGV[2], 'WITHSCORES')
local rows = {}
for i = 1, #found, 2 do
  if #rows == limit then break end
  local item = found[i]
  local edition = redis.call('HGET', KEYS[6], item) or '0 '
  local shown = item .. ':' .. string.match(edition, '^%d+')
  if most == 0 or seen(redis.call('HGET', KEYS[5], item)) + (held[shown] or 0) < most then
    rows[#rows + 1] = item .. ' ' .. found[i + 1] .. ' ' .. edition
  end
end
return rows
