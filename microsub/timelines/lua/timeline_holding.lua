-- Which of the named items any channel of a user shows or hides, removed channels included.
--
-- Atomic over all channels: an item that moves from one to another at the same time is found. Writes nothing.
--
-- KEYS  1 channels  2 removed channels
-- ARGV  1, 2 patterns: posts, hidden  3.. ids
-- reply 'id id …'
local ids, held = {}, {}
for i = 3, #ARGV do ids[i - 2] = ARGV[i] end
for _, list in ipairs(KEYS) do
  for _, uid in ipairs(redis.call('ZRANGE', list, 0, -1)) do
    for pattern = 1, 2 do
      local key = string.gsub(ARGV[pattern], '%*', uid)
      for i, at in ipairs(redis.call('ZMSCORE', key, unpack(ids))) do
        if at then held[ids[i]] = true end
      end
    end
  end
end
local found = {}
for _, id in ipairs(ids) do
  if held[id] then found[#found + 1] = id end
end
return table.concat(found, ' ')
