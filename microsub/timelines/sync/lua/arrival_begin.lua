-- Begins to keep a user's order of arrival.
--
-- Atomic: from this step on, scripts write the places of what arrives. Of several processes one begins, and all learn
-- that the items which were there before are still to be given places.
--
-- KEYS  1 arrivals_more
-- ARGV  1 now
-- reply the position before which these items belong, '' if they have their places
if redis.call('EXISTS', KEYS[1]) == 0 then
  local place = string.format('%.0f', math.floor(tonumber(ARGV[1]) * 1000000))
  redis.call('HSET', KEYS[1], 'last', place, 'building', place)
end
return redis.call('HGET', KEYS[1], 'building') or ''
