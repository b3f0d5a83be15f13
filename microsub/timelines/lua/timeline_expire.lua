-- Takes one batch out of a timeline by age of reading, or by number.
--
-- Atomic: which items are due and their leaving: an item marked unread a moment ago isn't taken as read, and items that
-- come in at the same time don't shift the end that is cut off.
--
-- KEYS  1 posts  2 unread  3 read  4 hidden  5 hidden-read  6 gone
-- ARGV  1 'read' or 'limit'  2 time of reading up to which items go, or the number that stays  3 size of the batch
--       4 now in whole seconds  5 reason
-- reply number of items that left; fewer than the batch when no more are due
-- include: leave
local sets = { posts = KEYS[1], unread = KEYS[2], read = KEYS[3], hidden = KEYS[4], hidden_read = KEYS[5], gone = KEYS[6] }
local batch, seconds, reason = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local due = {}

local function add(ids)
  for _, id in ipairs(ids) do due[#due + 1] = id end
end

if ARGV[1] == 'read' then
  add(redis.call('ZRANGEBYSCORE', sets.read, '-inf', ARGV[2], 'LIMIT', 0, batch))
  if #due < batch then
    add(redis.call('ZRANGEBYSCORE', sets.hidden_read, '-inf', ARGV[2], 'LIMIT', 0, batch - #due))
  end
else
  for _, key in ipairs({ sets.posts, sets.hidden }) do
    local excess = math.min(redis.call('ZCARD', key) - tonumber(ARGV[2]), batch - #due)
    if excess > 0 then add(redis.call('ZRANGE', key, 0, excess - 1)) end
  end
end
for _, id in ipairs(due) do leave(sets, id, seconds, reason) end
return #due
