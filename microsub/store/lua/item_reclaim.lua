-- Gives an item of a feed its guid's claim and its place in the feed's index, where they are missing.
--
-- Atomic: a guid that another item has got meanwhile stays that one's.
--
-- KEYS  1 feed  2 guids  3 items
-- ARGV  1 guid  2 id  3 time last updated  4 the id that the claim is taken from, where it is
-- reply 1 where the item has the claim now, else 0
local owner = redis.call('HGET', KEYS[2], ARGV[1])
if owner and owner ~= ARGV[2] and owner ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[3], 'NX', ARGV[3], ARGV[2])
local ttl = redis.call('TTL', KEYS[1])
if ttl > 0 then
  redis.call('EXPIRE', KEYS[2], ttl)
  redis.call('EXPIRE', KEYS[3], ttl)
end
return 1
