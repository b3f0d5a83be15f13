-- The JSON of items in the form in which it is stored, or its size if that is larger.
--
-- Atomic: a size is that of the JSON which is returned. Writes nothing.
--
-- KEYS  1.. items
-- ARGV  1 most: maximum bytes of an item's JSON, or -1 for its size in any case
-- reply for each item what is stored, or the size of the JSON in bytes; nothing for a missing one
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

local found = {}
for place, key in ipairs(KEYS) do
  local data = redis.call('HGET', key, 'Data')
  found[place] = data
  if data then
    local size = #data
    if string.sub(data, 1, 4) == '\40\181\47\253' then size = packed_size(data) end
    if size > most then found[place] = size end
  end
end
return found
