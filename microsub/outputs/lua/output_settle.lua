-- Counts the impressions of the items of a reply that are sent next, or returns those that weren't sent.
--
-- Atomic: the reservation of an item ends and its impression is counted in one step, and with the last one the item
-- moves from published to imported. So each reply counts once, even if this is retried, and no item is shown too often.
--
-- KEYS  1 output  2 output_published  3 output_imported  4 output_edited  5 output_impressions  6 output_editions
--       7 output_held  8 output_offered
-- ARGV  1 now  2 reply: its id  3 times: how many to keep per item  4.. items: those that are sent; none: the reply has
--       ended, and the remaining reservations with it
-- reply 1 if the reservation was still valid, else 0
-- include: held
local value = redis.call('HGET', KEYS[7], ARGV[2])
if not value or tonumber(string.match(value, '^%S+')) <= tonumber(ARGV[1]) then return 0 end
local sent, rest = {}, { string.match(value, '^%S+') }
for i = 4, #ARGV do sent[ARGV[i]] = true end
local most = tonumber(redis.call('HGET', KEYS[1], 'max_impressions') or 0)
each_shown(value, function(item, edition)
  if not sent[item] then
    rest[#rest + 1] = item .. ':' .. edition
    return
  end
  local current = string.match(redis.call('HGET', KEYS[6], item) or '', '^%d+')
  if current ~= edition or not redis.call('ZSCORE', KEYS[2], item) then return end
  local times = {}
  local known = redis.call('HGET', KEYS[5], item) or ''
  for time in string.gmatch(known, '%S+') do times[#times + 1] = time end
  local count = seen(known) + 1
  table.remove(times, 1)
  times[#times + 1] = ARGV[1]
  while #times > tonumber(ARGV[3]) do table.remove(times, 1) end
  redis.call('HSET', KEYS[5], item, count .. ' ' .. table.concat(times, ' '))
  if most > 0 and count >= most then
    redis.call('ZREM', KEYS[2], item)
    redis.call('ZADD', KEYS[3], ARGV[1], item)
    redis.call('HSET', KEYS[1], 'modified', ARGV[1])
  end
end)
if #ARGV < 4 or #rest == 1 then
  redis.call('HDEL', KEYS[7], ARGV[2])
else
  redis.call('HSET', KEYS[7], ARGV[2], table.concat(rest, ' '))
end
return 1
