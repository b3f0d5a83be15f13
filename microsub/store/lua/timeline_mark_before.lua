-- Marks one batch of what stands at a place or is older as read, in one channel or in all of them.
--
-- Atomic: an item's move from unread to read; and the place of `last_read_entry` is looked up in the same step as the
-- first batch. A caller repeats until nothing is left, so a long timeline never holds up Redis.
--
-- In all channels an item counts once: what a batch takes from one channel it takes from the others as well.
-- Muted items stay as they are: the reader hasn't seen them.
--
-- KEYS  1 channels
-- ARGV  1-6 patterns (parts/channels.lua)  7 uid or 'global'  8 now  9 size of the batch
--       10 id of the last entry, or '' for everything  11 its score, or '' to look it up
-- reply {'channel'}; {'gone'}: it left, the caller must find its score; {'unknown'}; else {'', number of items whose
--       state changed, 1 when there may be more, score}
-- include: place
-- include: channels
local all = channels_named(ARGV[7])
if not all then return { 'channel' } end
local now, left, id, score = ARGV[8], share(all, tonumber(ARGV[9])), ARGV[10], ARGV[11]

if id ~= '' and score == '' then
  local gone = false
  for _, sets in ipairs(all) do
    local stands = redis.call('ZSCORE', sets.posts, id) or redis.call('ZSCORE', sets.hidden, id)
    if stands then
      score = stands
      break
    end
    gone = gone or redis.call('ZSCORE', sets.gone, id)
  end
  if score == '' then return { gone and 'gone' or 'unknown' } end
end

-- The batch, each id once, although several channels may hold it.
local ids, taken = {}, {}
for _, sets in ipairs(all) do
  if left == 0 then break end
  local first = id == '' and 0 or (place(sets.unread, score, id))
  for _, one in ipairs(redis.call('ZREVRANGE', sets.unread, first, first + left - 1)) do
    left = left - 1
    if not taken[one] then
      taken[one] = true
      ids[#ids + 1] = one
    end
  end
end
if #ids == 0 then return { '', 0, 0, score } end

for _, sets in ipairs(all) do
  local marks, out = {}, {}
  for i, at in ipairs(redis.call('ZMSCORE', sets.unread, unpack(ids))) do
    if at then
      out[#out + 1] = ids[i]
      marks[#marks + 1] = now
      marks[#marks + 1] = ids[i]
    end
  end
  if #out > 0 then
    redis.call('ZREM', sets.unread, unpack(out))
    redis.call('ZADD', sets.read, unpack(marks))
  end
end
return { '', #ids, left == 0 and 1 or 0, score }
