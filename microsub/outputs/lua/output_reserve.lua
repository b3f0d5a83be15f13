-- Reserves an impression for each item that a reply is about to show.
--
-- Atomic: the counts of past and reserved impressions, and the reservation, so no two replies get the last one.
--
-- KEYS  1 output  2 output_published  3 output_imported  4 output_edited  5 output_impressions  6 output_editions
--       7 output_held  8 output_offered
-- ARGV  1 now  2 until: end of the reservation  3 reply: its id  4 most: maximum number of replies at once  5 life:
--       time to live of the key  6.. items: per item: id, edition
-- reply {'busy'} too many replies are being sent; else {'', the ids that the reply may show …}
-- include: held
local now = tonumber(ARGV[1])
local most = tonumber(redis.call('HGET', KEYS[1], 'max_impressions') or 0)
local held, over, count = held_now(KEYS[7], now)
for _, reply in ipairs(over) do redis.call('HDEL', KEYS[7], reply) end
if count >= tonumber(ARGV[4]) then return { 'busy' } end
local taken, shown = { '' }, { ARGV[2] }
for i = 6, #ARGV, 2 do
  local item, edition = ARGV[i], ARGV[i + 1]
  local one = item .. ':' .. edition
  local current = string.match(redis.call('HGET', KEYS[6], item) or '', '^%d+')
  local free = most == 0 or seen(redis.call('HGET', KEYS[5], item)) + (held[one] or 0) < most
  if current == edition and free and redis.call('ZSCORE', KEYS[2], item) then
    taken[#taken + 1] = item
    shown[#shown + 1] = one
  end
end
redis.call('HSET', KEYS[7], ARGV[3], table.concat(shown, ' '))
redis.call('EXPIRE', KEYS[7], ARGV[5])
return taken
