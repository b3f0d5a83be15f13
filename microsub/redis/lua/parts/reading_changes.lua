-- Changes of when a channel's items were read, in either form of readings.lua. A change of the older form makes what
-- readings_pack.lua has copied so far useless.
local function put_piece(key, at, piece)
  if piece == '' then
    redis.call('HDEL', key, at)
  else
    redis.call('HSET', key, at, piece)
  end
end

-- note_readings(key, time, ids): the items are read since that Unix time, but those that are already, stay so since
-- theirs. forget_readings(key, ids): they aren't read. Both return the number of items that changed. Of items that were
-- unread until now (`are_new`), none is looked for: in a large channel that takes longer than all the rest.
local function note_readings(key, time, ids, are_new)
  local time_bytes, pieces, added, count = bytes_of(time), {}, {}, 0
  for _, id in ipairs(ids) do
    local at, record = id % PIECES, record_of(id)
    if not pieces[at] then
      local piece = redis.pcall('HGET', key, at)
      if type(piece) == 'table' then
        count = 0
        redis.call('UNLINK', key .. ':packing')
        for _, one in ipairs(ids) do count = count + redis.call('ZADD', key, 'NX', time, one) end
        return count
      end
      pieces[at], added[at] = piece or '', {}
    end
    if not added[at][record] and (are_new or not place_in(pieces[at], record)) then
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
  local pieces, places, seen, count = {}, {}, {}, 0
  for _, id in ipairs(ids) do
    local record = record_of(id)
    local number = record and id % PIECES
    if record and not pieces[number] then
      local piece = redis.pcall('HGET', key, number)
      if type(piece) == 'table' then
        redis.call('UNLINK', key .. ':packing')
        return redis.call('ZREM', key, unpack(ids))
      end
      pieces[number], places[number] = piece or '', {}
    end
    local at = record and not seen[record] and place_in(pieces[number], record)
    if at then
      seen[record], count = true, count + 1
      table.insert(places[number], at)
    end
  end
  for number, cuts in pairs(places) do
    if #cuts > 0 then
      -- All at once: each copy of the piece of a large channel takes as long as finding a record in it.
      table.sort(cuts)
      local kept, from = {}, 1
      for _, at in ipairs(cuts) do
        kept[#kept + 1] = string.sub(pieces[number], from, at - 1)
        from = at + RECORD
      end
      put_piece(key, number, table.concat(kept) .. string.sub(pieces[number], from))
    end
  end
  return count
end
