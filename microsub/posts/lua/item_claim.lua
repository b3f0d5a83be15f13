-- Claims guids for new items of one feed, and notes them and edited items in the feed's outbox.
--
-- Atomic: a guid gets its item, its place in the feed's order and its note in one step, so that of two simultaneous
-- processes one wins each guid, and no crash leaves an item that never reaches timelines. In a reading, the feed loses
-- its validators in the same step: if the process dies, the next reading gets the whole document. Nothing is written if
-- a later reading has begun or the feed is gone.
--
-- KEYS  1 feed  2 feed_guids  3 feed_items  4 feed_outbox
-- ARGV  1 reading: or '' for a program  2 life: time to live if the feed is gone  3 edited: number of ids of edited
--       items  4.. rest: these ids, then per new item: guid, id, score
-- reply {per new item the id that the guid belongs to}, {ids in the outbox}, {edited items that weren't in it before};
--       nothing if nothing was written
-- include: overtaken
if ARGV[1] ~= '' then
  if redis.call('EXISTS', KEYS[1]) == 0 or overtaken(KEYS[1], ARGV[1]) then return false end
  redis.call('HDEL', KEYS[1], 'body_hash', 'etag', 'last_modified')
end
local owners, noted, first = {}, {}, 4 + tonumber(ARGV[3])
for at = 4, first - 1 do
  if redis.call('SADD', KEYS[4], ARGV[at]) == 1 then noted[#noted + 1] = ARGV[at] end
end
for at = first, #ARGV, 3 do
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
  if ttl < 1 then ttl = ARGV[2] end
  for place = 2, 4 do redis.call('EXPIRE', KEYS[place], ttl) end
end
return { owners, redis.call('SMEMBERS', KEYS[4]), noted }
