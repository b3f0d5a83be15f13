-- When the items of a channel were read, for redis/readings.py.
--
-- Atomic: the pieces are of one moment, in either form. Writes nothing.
--
-- KEYS  1 read
-- ARGV  1.. ids: of the items that are wanted, all without any
-- reply the pieces, as parts/readings.lua describes them; other items may be in them
-- include: readings
local function of_sorted_set()
  local listed = {}
  for _, record in pairs(records_in(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'))) do listed[#listed + 1] = record end
  return { table.concat(listed) }
end
if #ARGV == 0 then
  local found = redis.pcall('HVALS', KEYS[1])
  return found.err and of_sorted_set() or found
end
local known, seen, listed = {}, {}, {}
for _, id in ipairs(ARGV) do
  local name, piece = piece_of(KEYS[1], id, known)
  if type(piece) == 'table' then return of_sorted_set() end
  if piece and not seen[name] then
    seen[name] = true
    listed[#listed + 1] = piece
  end
end
return listed
