-- Notes which items of a channel "All" doesn't show, or forgets notes.
--
-- Atomic: the check whether the channel has an item, and the end of its note, so that an item that comes back at this
-- moment stays noted.
--
-- KEYS  1 user  2 posts  3 hidden  4 apart
-- ARGV  1 action: 'hide', 'show' or 'tidy' (forget those that the channel doesn't have)  2.. ids
-- reply the number of notes that were added or removed
local action, count = ARGV[1], 0
for i = 2, #ARGV do
  local id = ARGV[i]
  if action == 'hide' then
    count = count + redis.call('SADD', KEYS[4], id)
  elseif action == 'show' or not (redis.call('ZSCORE', KEYS[2], id) or redis.call('ZSCORE', KEYS[3], id)) then
    count = count + redis.call('SREM', KEYS[4], id)
  end
end
if action == 'hide' then redis.call('HSET', KEYS[1], 'apart', 1) end
return count
