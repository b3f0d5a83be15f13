-- The items that an output feed shows now, newest publication first: published, not too old, with impressions left.
--
-- Atomic: sets, impressions and reservations are read at the same moment. Writes nothing.
--
-- KEYS  1 output  2 output_published  3 output_imported  4 output_edited  5 output_impressions  6 output_editions
--       7 output_held  8 output_offered
-- ARGV  1 now  2 earliest: time of publication, or '-inf'  3 most: maximum number of items
-- reply 'id time edition' per item, the edition as in the hash of editions
-- include: held
local now, limit = tonumber(ARGV[1]), tonumber(ARGV[3])
local most = tonumber(redis.call('HGET', KEYS[1], 'max_impressions') or 0)
local held = most > 0 and held_now(KEYS[7], now) or {}
local rows, at, PIECE = {}, 0, 1000
while #rows < limit do
  local some = math.min(PIECE, limit)
  local found = redis.call('ZREVRANGEBYSCORE', KEYS[2], '+inf', ARGV[2], 'WITHSCORES', 'LIMIT', at, some)
  if #found == 0 then break end
  local ids = {}
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  local editions = redis.call('HMGET', KEYS[6], unpack(ids))
  local impressions = most > 0 and redis.call('HMGET', KEYS[5], unpack(ids))
  for i, item in ipairs(ids) do
    if #rows == limit then break end
    local edition = editions[i] or '0 '
    local shown = most > 0 and item .. ':' .. string.match(edition, '^%d+')
    if most == 0 or seen(impressions[i] or '') + (held[shown] or 0) < most then
      rows[#rows + 1] = item .. ' ' .. found[2 * i] .. ' ' .. edition
    end
  end
  at = at + some
end
return rows
