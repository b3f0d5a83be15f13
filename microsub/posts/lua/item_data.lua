-- The JSON of an item in the form in which it is stored, or its size if that is larger.
--
-- Atomic: the size is that of the JSON which is returned. Writes nothing.
--
-- KEYS  1 item
-- ARGV  1 maximum bytes of the JSON, or -1 for its size in any case
-- reply what is stored, or the size of the JSON in bytes; nothing for a missing item
local data = redis.call('HGET', KEYS[1], 'Data')
if not data then return false end

-- The size that a packed post (posts/packing.py) says in its header, RFC 8878, section 3.1.1.1.
local function packed_size()
  local descriptor = string.byte(data, 5) or 0
  local form, single = math.floor(descriptor / 64), math.floor(descriptor / 32) % 2
  local at = 6 + (1 - single) + ({ 0, 1, 2, 4 })[descriptor % 4 + 1]
  local length = form == 0 and single or 2 ^ form
  local size = form == 1 and 256 or 0
  for place = 0, length - 1 do size = size + (string.byte(data, at + place) or 0) * 256 ^ place end
  return math.min(size, 2 ^ 31)
end

local size = #data
if string.sub(data, 1, 4) == '\40\181\47\253' then size = packed_size() end
if size > tonumber(ARGV[1]) then return size end
return data
