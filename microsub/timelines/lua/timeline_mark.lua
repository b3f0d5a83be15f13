-- Marks the named items read or unread, in one channel or wherever they are.
--
-- Atomic: an item's move between unread and read. An item that isn't in the timeline is ignored, so a mark that comes
-- after a removal creates nothing. A muted item that is named changes its flag too: it comes back as its reader left it.
--
-- KEYS  1 channels
-- ARGV  1-6 patterns (parts/channels.lua)  7 uid or 'global'  8 'read' or 'unread'  9 now  10.. ids
-- reply {'id id …' whose state changed (in any channel), number of ids that were looked at, the first ones}, or -1: no
--       such channel
-- include: channels
local all = channels_named(ARGV[7])
if not all then return -1 end
local to_read, now, ids = ARGV[8] == 'read', ARGV[9], {}
for i = 10, 9 + share(all, #ARGV - 9) do ids[i - 9] = ARGV[i] end
if #ids == 0 then return { '', 0 } end
local known, changed = {}, {}

local function note(id)
  if not known[id] then
    known[id] = true
    changed[#changed + 1] = id
  end
end

local function among(key) return redis.call('ZMSCORE', key, unpack(ids)) end

for _, sets in ipairs(all) do
  local hidden, shown = among(sets.hidden), among(to_read and sets.unread or sets.posts)
  local read = not to_read and among(sets.read)
  local out, into = {}, {}
  for i, id in ipairs(ids) do
    if shown[i] and (to_read or read[i]) then
      out[#out + 1] = id
      into[#into + 1] = to_read and now or shown[i]
      into[#into + 1] = id
      note(id)
    elseif hidden[i] then
      local count
      if to_read then
        count = redis.call('ZADD', sets.hidden_read, 'NX', now, id)
      else
        count = redis.call('ZREM', sets.hidden_read, id)
      end
      if count == 1 then note(id) end
    end
  end
  if #out > 0 then
    redis.call('ZREM', to_read and sets.unread or sets.read, unpack(out))
    redis.call('ZADD', to_read and sets.read or sets.unread, unpack(into))
  end
end
return { table.concat(changed, ' '), #ids }
