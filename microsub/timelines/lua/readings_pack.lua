-- Turns the sorted set of when a channel's items were read, as layout 8 has it, into the hash of later ones, step by step.
--
-- Atomic: every script finds all of them in the sorted set, until the last step replaces it. The hash grows beside it; a
-- change of the sorted set deletes that (reading_changes.lua). Its field `count` says how far this is.
--
-- KEYS  1 read  2 packing: the hash that grows
-- ARGV  1 how: 'pack', or 'count' to change nothing  2 most: number of items of one step
-- reply number of items in it, 0 if it is a hash already, or empty
-- include: readings
-- include: reading_changes
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then return 0 end
local count = redis.call('ZCARD', KEYS[1])
if ARGV[1] == 'count' then return count end
local done = tonumber(redis.call('HGET', KEYS[2], 'count') or 0)
local rows = redis.call('ZRANGE', KEYS[1], done, done + tonumber(ARGV[2]) - 1, 'WITHSCORES')
add_records(KEYS[2], records_in(rows), {})
if done + #rows / 2 < count then
  redis.call('HSET', KEYS[2], 'count', done + #rows / 2)
  redis.call('EXPIRE', KEYS[2], 3600)
else
  redis.call('UNLINK', KEYS[1])
  redis.call('HDEL', KEYS[2], 'count')
  if redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('RENAME', KEYS[2], KEYS[1])
    redis.call('PERSIST', KEYS[1])
  end
end
return count
