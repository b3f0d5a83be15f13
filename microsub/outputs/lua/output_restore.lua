-- Adds items to an output feed with the state that they had elsewhere.
--
-- Atomic: an item's sets, impressions and edition. Items that were ever in the feed aren't changed.
--
-- KEYS  1 output  2 output_published  3 output_imported  4 output_edited  5 output_impressions  6 output_editions
--       7 output_held  8 output_offered
-- ARGV  1 now  2.. items: per item: id, the post's version, times of publication, import ('' for none) and the last
--       edit, 'count time …' of its impressions or ''
-- reply {'missing'} no such feed; else {'', how many were added}
if redis.call('HEXISTS', KEYS[1], 'id') == 0 then return { 'missing' } end
local count = 0
for i = 2, #ARGV, 6 do
  local item, published, imported, shown = ARGV[i], ARGV[i + 2], ARGV[i + 3], ARGV[i + 5]
  if not redis.call('ZSCORE', KEYS[4], item) then
    redis.call('ZADD', KEYS[4], ARGV[i + 4], item)
    if imported ~= '' then
      redis.call('ZADD', KEYS[3], imported, item)
    elseif published ~= '' then
      redis.call('ZADD', KEYS[2], published, item)
    end
    if published ~= '' or imported ~= '' then
      local number = redis.call('HINCRBY', KEYS[1], 'editions', 1)
      redis.call('HSET', KEYS[6], item, number .. ' ' .. ARGV[i + 1] .. ' ' .. published)
    end
    if shown ~= '' then redis.call('HSET', KEYS[5], item, shown) end
    count = count + 1
  end
end
if count > 0 then redis.call('HSET', KEYS[1], 'modified', ARGV[1]) end
return { '', count }
