-- Notes that a feed's publisher asked for a pause, and holds the whole host while ARGV[4] of its feeds pause.
--
-- Atomic: the count and the hold belong together.
--
-- KEYS  1 host
-- ARGV  1 feed  2 until  3 now  4 enough: how many make a hold  5 life: time to live of the host's record
-- reply the number of pausing feeds
redis.call('HSET', KEYS[1], 'held:' .. ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[5])
local now, enough = tonumber(ARGV[3]), tonumber(ARGV[4])
local untils = {}
local all = redis.call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  if string.sub(all[at], 1, 5) == 'held:' then
    if (tonumber(all[at + 1]) or 0) > now then
      untils[#untils + 1] = all[at + 1]
    else
      redis.call('HDEL', KEYS[1], all[at])
    end
  end
end
if #untils >= enough then
  -- Until then, that many feeds pause; after it, fewer.
  table.sort(untils, function(a, b) return tonumber(a) > tonumber(b) end)
  redis.call('HSET', KEYS[1], 'hold', untils[enough])
end
return #untils
