-- When the items of a channel were read: a hash of pieces. An item's piece is the one whose name is its id modulo 16. In
-- that place, a long piece is an empty text, and there are four shorter ones, `<name>.0` to `<name>.3`, by the id's next
-- two bits; so on for each of these. So a change reads and writes a few kilobytes, however many items were read. A piece
-- has nine bytes for each item: five for the id, and four for the Unix time in whole seconds, little-endian. A sorted set
-- needs 78. Data of layout 8 has one, until timelines/repacking.py has visited the channel: there the command for hashes
-- fails, and the other one is sent. These functions only read; those that write are in reading_changes.lua.
local PIECES, PARTS_OF_ONE, RECORD, LATEST = 16, 4, 9, 4294967295

local function low_bytes(number) return number % 256, math.floor(number / 256) % 256, math.floor(number / 65536) % 256 end

-- The first five bytes of an item's record; false for a text that is no item's id.
local records = {}
local function record_of(id)
  if records[id] == nil then
    local number = string.match(id, '^%d+$') and tonumber(id)
    if number and number < 1099511627776 then
      local first, second, third = low_bytes(number)
      local fourth, fifth = math.floor(number / 16777216) % 256, math.floor(number / 4294967296)
      records[id] = string.char(first, second, third, fourth, fifth)
    else
      records[id] = false
    end
  end
  return records[id]
end
local function bytes_of(time)
  local number = math.max(0, math.min(LATEST, math.floor(tonumber(time))))
  local first, second, third = low_bytes(number)
  return string.char(first, second, third, math.floor(number / 16777216))
end

-- The position of a record in a piece, or nil.
local function place_in(piece, record)
  local at = 1
  while true do
    at = string.find(piece, record, at, true)
    if not at or at % RECORD == 1 then return at end
    at = at + 1
  end
end

-- piece_of(key, id, known): the name of the piece for an item, and its text, false if there is none; a table in place of
-- the text for a sorted set. `known`: texts by name, in which those that are read are noted.
local function piece_of(key, id, known)
  local name, step = id % PIECES, PIECES
  while true do
    if known[name] == nil then known[name] = redis.pcall('HGET', key, name) end
    if known[name] ~= '' then return name, known[name] end
    name, step = name .. '.' .. math.floor(id / step) % PARTS_OF_ONE, step * PARTS_OF_ONE
  end
end

-- reading_time(key, id): the Unix time at which an item was read; false or nil if it wasn't.
local function reading_time(key, id)
  local record = record_of(id)
  if not record then return nil end
  local piece = redis.pcall('HGET', key, id % PIECES)
  if piece == '' then piece = select(2, piece_of(key, id, {})) end
  if not piece then return nil end
  if type(piece) == 'table' then
    local time = redis.call('ZSCORE', key, id)
    return time and math.floor(tonumber(time))
  end
  local at = place_in(piece, record)
  if not at then return nil end
  local first, second, third, fourth = string.byte(piece, at + 5, at + 8)
  return first + 256 * second + 65536 * third + 16777216 * fourth
end

-- records_in(rows): the records of what a sorted set has, {id, time, id, time, …}, by id.
local function records_in(rows)
  local found = {}
  for i = 1, #rows, 2 do
    local record = record_of(rows[i])
    if record then found[rows[i]] = record .. bytes_of(rows[i + 1]) end
  end
  return found
end
