-- Claims guids for new items of one feed.
--
-- Atomic: a guid gets its item, its place in the feed's order and its mark as pending in one step, so that of two
-- polls at once one wins each guid, and no crash leaves an item that timelines will never hear of.
--
-- KEYS  1 feed  2 guids  3 items  4 pending
-- ARGV  1 time to live where the feed has gone altogether  2.. per item: guid, id, score
-- reply {per item the id that the guid belongs to}, {ids that are pending}
local owners = {}
for at = 2, #ARGV, 3 do
  local guid, id, score = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if redis.call('HSETNX', KEYS[2], guid, id) == 1 then
    redis.call('ZADD', KEYS[3], score, id)
    redis.call('SADD', KEYS[4], id)
    owners[#owners + 1] = id
  else
    owners[#owners + 1] = redis.call('HGET', KEYS[2], guid)
  end
end
-- A feed that nobody follows expires as a whole.
local ttl = redis.call('TTL', KEYS[1])
if ttl ~= -1 then
  if ttl < 1 then ttl = ARGV[1] end
  for place = 2, 4 do redis.call('EXPIRE', KEYS[place], ttl) end
end
return { owners, redis.call('SMEMBERS', KEYS[4]) }
