-- Items that were added to a channel after a position, in the order of arrival.
--
-- Atomic: one snapshot of both sorted sets and the channel, so no item is missed between them. Writes nothing.
--
-- KEYS  1 arrivals  2 arrivals_again: `arrivals:again`  3 posts?: of the channel (without it: of all channels)
-- ARGV  1 after: the position  2 limit: maximum number of items to examine
-- reply {the position up to which all items were examined, {ids that the channel shows}, 1 if more follow}
local most, rows = tonumber(ARGV[2]), {}
for i = 1, 2 do
  local found = redis.call('ZRANGEBYSCORE', KEYS[i], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, most + 1)
  for j = 1, #found, 2 do rows[#rows + 1] = { found[j], tonumber(found[j + 1]) } end
end
if #rows == 0 then return { ARGV[1], {}, 0 } end
table.sort(rows, function(a, b) return a[2] < b[2] end)
local count, ids, there = math.min(most, #rows), {}, {}
for i = 1, count do ids[i] = rows[i][1] end
local scores = KEYS[3] and redis.call('ZMSCORE', KEYS[3], unpack(ids))
for i, id in ipairs(ids) do
  if not scores or scores[i] then there[#there + 1] = id end
end
return { string.format('%.0f', rows[count][2]), there, #rows > count and 1 or 0 }
