-- Records a processed delivery, once.
--
-- Atomic: a delivery that is processed twice counts once, and concurrent counts add up.
--
-- KEYS  1 feed  2 feed_websub: its agreement
-- ARGV  1 digest: of the body  2 seen: how many digests are kept  3 new: new posts  4 spent: until when processor time
--       is used up  5.. fields: of the feed, each followed by its value
-- reply 1 if it counts; 0 if it was recorded before, or there is no subscription any more
local seen = redis.call('HGET', KEYS[2], 'seen')
if redis.call('EXISTS', KEYS[1], KEYS[2]) < 2 then return 0 end
local kept = { ARGV[1] }
for digest in string.gmatch(seen or '', '%S+') do
  if digest == ARGV[1] then return 0 end
  if #kept < tonumber(ARGV[2]) then kept[#kept + 1] = digest end
end
redis.call('HSET', KEYS[2], 'seen', table.concat(kept, ' '), 'spent', ARGV[4])
if ARGV[3] ~= '0' then redis.call('HINCRBY', KEYS[1], 'push_posts', ARGV[3]) end
for at = 5, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
return 1
