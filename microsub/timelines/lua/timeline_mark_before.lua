-- Marks one batch of items up to a score as read in one channel; or looks the score of an item up, in one channel or in
-- all of them.
--
-- Atomic: an item's move from unread to read; and in one channel the score of `last_read_entry` is looked up in the same
-- step as the first batch. A caller repeats until nothing is left, so a long timeline never holds up Redis; all channels
-- it goes through one by one, so that what it costs grows with what is unread there, not with that times the channels.
--
-- Muted items stay as they are: the reader hasn't seen them.
--
-- KEYS  1 channels
-- ARGV  1-6 patterns (parts/channels.lua)  7 uid, or with 9 = 0 'global' too  8 now  9 size of the batch, or 0 to look
--       the score up and no more
--       10 id of the last entry, or '' for everything  11 its score, or '' to look it up
-- reply {'channel'}; {'gone'}: it left, the caller must find its score; {'unknown'}; else {'', ids of the items whose
--       state changed, score}; as many as the batch takes: there may be more
-- include: rank
-- include: channels
local all = channels_named(ARGV[7])
if not all then return { 'channel' } end
local now, most, id, score = ARGV[8], tonumber(ARGV[9]), ARGV[10], ARGV[11]

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
if most == 0 then return { '', {}, score } end

local unread = all[1].unread
local first = id == '' and 0 or (rank(unread, score, id))
local ids = redis.call('ZREVRANGE', unread, first, first + most - 1)
if #ids > 0 then
  local marks = {}
  for i, one in ipairs(ids) do
    marks[2 * i - 1] = now
    marks[2 * i] = one
  end
  redis.call('ZREM', unread, unpack(ids))
  redis.call('ZADD', all[1].read, unpack(marks))
end
return { '', ids, score }
