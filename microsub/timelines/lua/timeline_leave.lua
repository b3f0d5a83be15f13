-- Takes the named items out of one channel or of all of them, for the given reason.
--
-- Atomic: an item leaves posts, unread, read and hidden and stands in `gone` in the same step, so no add can bring it
-- back in between. Items that aren't there are ignored: what never came in needs no memory of having left.
-- Every condition is asked here and not by the caller: an item that was read meanwhile isn't withdrawn as unread, one
-- that was marked unread meanwhile isn't expired as read, and what a new subscription holds isn't taken by an unfollow
-- that came before it.
--
-- KEYS  1 channels  2 removed channels, where these count too
-- ARGV  1-6 patterns (parts/channels.lua)  7 uid or 'global'  8 now in whole seconds  9 reason
--       10 '' or 'unread': only these  11, 12 '' or a feed and the key of the channel's feeds: only while the feed isn't
--       followed there  13.. ids
-- reply {'id id …' that left, number of ids that were looked at, the first ones}, or -1: no such channel
-- include: channels
-- include: leave
local all = channels_named(ARGV[7])
if not all then return -1 end
local seconds, reason, only_unread = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10] == 'unread'
if ARGV[11] ~= '' and redis.call('HEXISTS', ARGV[12], ARGV[11]) == 1 then return { '', #ARGV } end
local ids = {}
for i = 13, 12 + share(all, #ARGV - 12) do ids[i - 12] = ARGV[i] end
if #ids == 0 then return { '', 0 } end
local gone, out = {}, {}

for _, sets in ipairs(all) do
  local posts = redis.call('ZMSCORE', sets.posts, unpack(ids))
  local hidden = redis.call('ZMSCORE', sets.hidden, unpack(ids))
  for i, id in ipairs(ids) do
    local goes = posts[i] or hidden[i]
    if goes and only_unread then
      goes = not redis.call('ZSCORE', posts[i] and sets.read or sets.hidden_read, id)
    end
    if goes then
      leave(sets, id, seconds, reason)
      if not gone[id] then
        gone[id] = true
        out[#out + 1] = id
      end
    end
  end
end
return { table.concat(out, ' '), #ids }
