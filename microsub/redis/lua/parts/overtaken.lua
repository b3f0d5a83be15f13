-- overtaken(feed, reading): whether a later reading of the feed has begun; '' is later than all others.
local function overtaken(feed, reading)
  return reading ~= '' and (tonumber(redis.call('HGET', feed, 'reading') or '') or 0) > tonumber(reading)
end
