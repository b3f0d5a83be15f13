-- stream_append(stream, bytes, first): appends the messages that ARGV holds from `first` on, and counts their bytes; ids.
local function stream_append(stream, bytes, first)
  local ids, total, at = {}, 0, first
  while at <= #ARGV do
    total = total + tonumber(ARGV[at])
    local n = tonumber(ARGV[at + 1])
    ids[#ids + 1] = redis.call('XADD', stream, '*', unpack(ARGV, at + 2, at + 1 + n))
    at = at + 2 + n
  end
  if type(redis.pcall('INCRBY', bytes, total)) == 'table' then
    redis.call('SET', bytes, total) -- it holds no number; the next empty stream makes it right
  end
  return ids
end
