-- Changes of when a channel's items were read, in either form of readings.lua. A change of the older form makes what
-- readings_pack.lua has copied so far useless.
local LONGEST = 500 * RECORD

-- Writes a piece with items, in parts if it is long.
local function put_piece(key, name, piece)
  if #piece <= LONGEST then
    redis.call('HSET', key, name, piece)
    return
  end
  local _, depth = string.gsub(name, '%.', '')
  local step, parts = PIECES * PARTS_OF_ONE ^ depth, {}
  for at = 1, #piece, RECORD do
    local first, second, third, fourth, fifth = string.byte(piece, at, at + 4)
    local id = first + 256 * second + 65536 * third + 16777216 * fourth + 4294967296 * fifth
    local part = name .. '.' .. math.floor(id / step) % PARTS_OF_ONE
    parts[part] = parts[part] or {}
    table.insert(parts[part], string.sub(piece, at, at + RECORD - 1))
  end
  redis.call('HSET', key, name, '')
  for part, records in pairs(parts) do put_piece(key, part, table.concat(records)) end
end

-- Deletes a piece without items; also the longer name, if its other parts have none.
local function drop_piece(key, name)
  redis.call('HDEL', key, name)
  local whole = string.match(name, '^(.*)%.')
  if not whole then return end
  for part = 0, PARTS_OF_ONE - 1 do
    if redis.call('HEXISTS', key, whole .. '.' .. part) == 1 then return end
  end
  drop_piece(key, whole)
end

-- add_records(key, records, known): adds the records of items that aren't in the hash, by id; `known` as in piece_of.
local function add_records(key, records, known)
  local added = {}
  for id, record in pairs(records) do
    local name = piece_of(key, id, known)
    added[name] = added[name] or {}
    table.insert(added[name], record)
  end
  for name, some in pairs(added) do put_piece(key, name, (known[name] or '') .. table.concat(some)) end
end

-- note_readings(key, time, ids): the items are read since that Unix time, but those that are already, stay so since
-- theirs. forget_readings(key, ids): they aren't read. Both return the number of items that changed. Of items that were
-- unread until now (`are_new`), none is looked for, which would take a sixth of the time of many in a large channel.
local function note_readings(key, time, ids, are_new)
  local time_bytes, known, records, count = bytes_of(time), {}, {}, 0
  for _, id in ipairs(ids) do
    local record, _, piece = record_of(id), piece_of(key, id, known)
    if type(piece) == 'table' then
      count = 0
      redis.call('UNLINK', key .. ':packing')
      for _, one in ipairs(ids) do count = count + redis.call('ZADD', key, 'NX', time, one) end
      return count
    end
    if not records[id] and (are_new or not piece or not place_in(piece, record)) then
      records[id], count = record .. time_bytes, count + 1
    end
  end
  add_records(key, records, known)
  return count
end
local function forget_readings(key, ids)
  local known, places, seen, count = {}, {}, {}, 0
  for _, id in ipairs(ids) do
    local record, name, piece = record_of(id), nil, nil
    if record then name, piece = piece_of(key, id, known) end
    if type(piece) == 'table' then
      redis.call('UNLINK', key .. ':packing')
      return redis.call('ZREM', key, unpack(ids))
    end
    local at = piece and not seen[record] and place_in(piece, record)
    if at then
      seen[record], count = true, count + 1
      places[name] = places[name] or {}
      table.insert(places[name], at)
    end
  end
  for name, cuts in pairs(places) do
    -- All at once: each copy of a piece takes as long as finding a record in it.
    table.sort(cuts)
    local kept, from = {}, 1
    for _, at in ipairs(cuts) do
      kept[#kept + 1] = string.sub(known[name], from, at - 1)
      from = at + RECORD
    end
    local left = table.concat(kept) .. string.sub(known[name], from)
    if left == '' then drop_piece(key, name) else put_piece(key, name, left) end
  end
  return count
end
