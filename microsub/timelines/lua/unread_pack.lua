-- Turns the sorted set of a channel's unread items, as layout 8 has it, into the set of later ones, step by step.
--
-- Atomic: every script finds all unread items in the sorted set, until the last step replaces it. The new set grows beside
-- it; a change of the sorted set deletes that (unread_changes.lua), so its size says how far this is.
--
-- KEYS  1 unread  2 unread_packing
-- ARGV  1 how: 'pack', or 'count' to change nothing  2 most: number of ids of one step
-- reply number of ids in it, 0 if it is a set already, or empty
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return 0 end
local count = redis.call('ZCARD', KEYS[1])
if ARGV[1] == 'count' then return count end
local done = redis.call('SCARD', KEYS[2])
local ids = redis.call('ZRANGE', KEYS[1], done, done + tonumber(ARGV[2]) - 1)
for first = 1, #ids, 1000 do
  redis.call('SADD', KEYS[2], unpack(ids, first, math.min(#ids, first + 999)))
end
if done + #ids < count then
  redis.call('EXPIRE', KEYS[2], 3600)
else
  redis.call('UNLINK', KEYS[1])
  redis.call('RENAME', KEYS[2], KEYS[1])
  redis.call('PERSIST', KEYS[1])
end
return count
