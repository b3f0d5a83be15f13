-- The JSON of items in the form in which it is stored, with its full text if that is asked for, or the size of both if
-- they are larger.
--
-- Atomic: a size is that of the JSON which is returned. Writes nothing.
--
-- KEYS  1.. items
-- ARGV  1 most: maximum bytes of an item's JSON, or -1 for its size in any case  2 full: 1 or 0
-- reply for each item what is stored, {that, its full text, whether this is automatic} if it has one, or the size in
--       bytes; nothing for a missing one
local most = tonumber(ARGV[1])

-- The size that a packed post (posts/packing.py) says in its header, RFC 8878, section 3.1.1.1.
local function packed_size(data)
  local descriptor = string.byte(data, 5) or 0
  local form, single = math.floor(descriptor / 64), math.floor(descriptor / 32) % 2
  local at = 6 + (1 - single) + ({ 0, 1, 2, 4 })[descriptor % 4 + 1]
  local length = form == 0 and single or 2 ^ form
  local size = form == 1 and 256 or 0
  for place = 0, length - 1 do size = size + (string.byte(data, at + place) or 0) * 256 ^ place end
  return math.min(size, 2 ^ 31)
end

local function size(data)
  return string.sub(data, 1, 4) == '\40\181\47\253' and packed_size(data) or #data
end

local found = {}
for place, key in ipairs(KEYS) do
  local data, full, automatic = unpack(redis.call('HMGET', key, 'Data', 'Full', 'full_auto'))
  local bytes = data and size(data) + (full and size(full) or 0)
  if data and bytes > most then
    found[place] = bytes
  elseif data and full and ARGV[2] == '1' then
    found[place] = { data, full, automatic and 1 or 0 }
  else
    found[place] = data
  end
end
return found
