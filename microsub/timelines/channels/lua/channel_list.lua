-- All channels of a user with their unread counts, and optionally the check of the token. Apps send this request
-- constantly, like that for pages. It costs one command per channel if the caller remembers names and settings.
--
-- Atomic: one snapshot of counts and shape. The shape shows whether remembered names and settings are old: it
-- is the user's number of that name (channel_change.lua), and the uids. Writes nothing.
--
-- KEYS  1 channels  2 user  3 posts: of `saved`  4 token?  5 behind?  6 arrivals_more?
-- ARGV  1-3 patterns: channel, unread, apart  4 now  5 shape: the remembered one, or ''  6 compared: how many unread ids
--       may be examined to count the distinct ones, 0 if nobody asks  7.. fields: of a channel
-- reply {'token'}, {'disabled'}, or {'', scopes, 1 when posts wait to be brought into timelines or the asked order of
--       arrival isn't kept yet, shape, 'unread unread …' by position, number of distinct unread ids, without those of
--       hidden feeds, or -1 if too many would be examined, -2 if feeds are
--       hidden, too, number of saved posts if ids may be examined}; then, if
--       the shape differs, {uid, the fields' values} per channel
-- include: active
-- include: kept
-- include: unread
local scope, waiting = '', 0
local user = redis.call('HMGET', KEYS[2], 'disabled', 'created', 'shape', 'apart')
if KEYS[4] then
  scope = scope_of(KEYS[4], ARGV[4])
  if not scope then return { 'token' } end
  if user[1] then return { 'disabled' } end
  waiting = redis.call('EXISTS', KEYS[5])
  if KEYS[6] and not is_kept(KEYS[6]) then waiting = 1 end
end
local before, after = string.match(ARGV[2], '^(.*)%*(.*)$')
local uids, counts, sum, largest = redis.call('ZRANGE', KEYS[1], 0, -1), {}, 0, nil
for i, uid in ipairs(uids) do
  counts[i] = count_unread(before .. uid .. after)
  sum = sum + counts[i]
  if not largest or counts[i] > counts[largest] then largest = i end
end

-- visit(uid, each): calls it with the channel's unread ids, at most 1,000 at once.
local function visit(uid, each)
  local ids = unread_ids(before .. uid .. after)
  for first = 1, #ids, 1000 do each({ unpack(ids, first, math.min(#ids, first + 999)) }) end
end

-- The number of distinct unread ids. Those of the largest channel aren't read; it is only asked for those of the others.
local function distinct(most)
  if sum == 0 or sum == counts[largest] then return sum end
  if sum - counts[largest] > most then return -1 end
  local seen, twice, many = {}, 0, before .. uids[largest] .. after
  for i, uid in ipairs(uids) do
    if i ~= largest then
      visit(uid, function(ids)
        local there = are_unread(many, ids)
        for j = 1, #ids do
          if there[j] or seen[ids[j]] then twice = twice + 1 end
          seen[ids[j]] = true
        end
      end)
    end
  end
  return sum - twice
end

-- The same, if feeds are hidden in "All": their unread items count only in other channels.
local function shown(most)
  if sum > most then return -2 end
  local seen, count = {}, 0
  for _, uid in ipairs(uids) do
    local apart = string.gsub(ARGV[3], '%*', uid)
    visit(uid, function(ids)
      local hidden = redis.call('SMISMEMBER', apart, unpack(ids))
      for j = 1, #ids do
        if hidden[j] == 0 and not seen[ids[j]] then
          seen[ids[j]], count = true, count + 1
        end
      end
    end)
  end
  return count
end

local shape = (user[2] or '') .. ' ' .. (user[3] or '') .. ' ' .. table.concat(uids, ' ')
local reply = { '', scope, waiting, shape, table.concat(counts, ' ') }
reply[6] = (user[4] and shown or distinct)(tonumber(ARGV[6]))
reply[7] = ARGV[6] ~= '0' and redis.call('ZCARD', KEYS[3]) or 0
if shape ~= ARGV[5] then
  for i, uid in ipairs(uids) do
    local row = redis.call('HMGET', (string.gsub(ARGV[1], '%*', uid)), unpack(ARGV, 7))
    table.insert(row, 1, uid)
    reply[7 + i] = row
  end
end
return reply
