-- Makes the named items' positions in the order of arrival agree with what the user's channels show.
--
-- Atomic per item: the channels that show it are counted in the step that writes the count. A shown item without a
-- position gets the next one. Correct items stay unchanged, and so does an order that isn't kept.
--
-- KEYS  1 channels  2 removed_channels  3 arrivals  4 arrivals_more
-- ARGV  1 now  2 posts_pattern  3.. ids: oldest first
-- reply number of items examined, from the first one on
local keys = {}
for i = 1, 2 do
  for _, uid in ipairs(redis.call('ZRANGE', KEYS[i], 0, -1)) do keys[#keys + 1] = (string.gsub(ARGV[2], '%*', uid)) end
end
local ids = {}
for i = 3, math.min(#ARGV, 2 + math.max(1, math.floor(20000 / math.max(1, #keys)))) do ids[i - 2] = ARGV[i] end
if #ids == 0 or redis.call('EXISTS', KEYS[4]) == 0 then return #ids end
local shown = {}
for i = 1, #ids do shown[i] = 0 end
for _, key in ipairs(keys) do
  for i, score in ipairs(redis.call('ZMSCORE', key, unpack(ids))) do
    if score then shown[i] = shown[i] + 1 end
  end
end
local newest = redis.call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
local last = math.max(tonumber(redis.call('HGET', KEYS[4], 'last') or 0), tonumber(newest[2] or 0))
for i, id in ipairs(ids) do
  if shown[i] == 0 then
    redis.call('ZREM', KEYS[3], id)
    redis.call('ZREM', KEYS[3] .. ':again', id)
  elseif not redis.call('ZSCORE', KEYS[3], id) then
    last = math.max(math.floor(tonumber(ARGV[1]) * 1000000), last + 1)
    redis.call('ZADD', KEYS[3], string.format('%.0f', last), id)
  end
  if shown[i] > 1 then
    redis.call('HSET', KEYS[4], id, shown[i] - 1)
  else
    redis.call('HDEL', KEYS[4], id)
  end
end
if last > 0 then redis.call('HSET', KEYS[4], 'last', string.format('%.0f', last)) end
return #ids
