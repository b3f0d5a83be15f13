-- Changes of when a channel's items were read, in either form of readings.lua.
local function put_piece(key, at, piece)
  if piece == '' then
    redis.call('HDEL', key, at)
  else
    redis.call('HSET', key, at, piece)
  end
end

-- note_readings(key, time, ids): the items are read since that Unix time, but those that are already, stay so since
-- theirs. forget_readings(key, ids): they aren't read. Both return the number of items that changed.
local function note_readings(key, time, ids)
  local time_bytes, pieces, added, count = bytes_of(time), {}, {}, 0
  for _, id in ipairs(ids) do
    local at, record = id % PIECES, record_of(id)
    if not pieces[at] then
      local piece = redis.pcall('HGET', key, at)
      if type(piece) == 'table' then
        count = 0
        for _, one in ipairs(ids) do count = count + redis.call('ZADD', key, 'NX', time, one) end
        return count
      end
      pieces[at], added[at] = piece or '', {}
    end
    if not added[at][record] and not place_in(pieces[at], record) then
      added[at][record] = true
      table.insert(added[at], record .. time_bytes)
      count = count + 1
    end
  end
  for at, piece in pairs(pieces) do
    if #added[at] > 0 then put_piece(key, at, piece .. table.concat(added[at])) end
  end
  return count
end
local function forget_readings(key, ids)
  local pieces, changed_ones, count = {}, {}, 0
  for _, id in ipairs(ids) do
    local record = record_of(id)
    local number = record and id % PIECES
    if record and not pieces[number] then
      local piece = redis.pcall('HGET', key, number)
      if type(piece) == 'table' then return redis.call('ZREM', key, unpack(ids)) end
      pieces[number] = piece or ''
    end
    local at = record and place_in(pieces[number], record)
    if at then
      pieces[number] = string.sub(pieces[number], 1, at - 1) .. string.sub(pieces[number], at + RECORD)
      changed_ones[number], count = true, count + 1
    end
  end
  for number in pairs(changed_ones) do put_piece(key, number, pieces[number]) end
  return count
end
