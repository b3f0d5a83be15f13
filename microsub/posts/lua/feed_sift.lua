-- Says which guids of a feed are known, and lets the next reading see all of the document if any isn't.
--
-- Atomic: if the reply names news, the feed has no validators; so whatever becomes of this process, the next
-- reading finds them again. A reading writes nothing when a later one has begun.
--
-- KEYS  1 feed  2 guids
-- ARGV  1 the reading that asks, or ''  2 how many of the names are new posts where they aren't known  3.. names; the
--       others are asked for only
-- reply {1 where the validators were removed, else 0; per name an id or nothing}
-- include: overtaken
local reply, is_news = { 0 }, false
local wanted = tonumber(ARGV[2])
for at = 3, #ARGV, 1000 do
  for i, id in ipairs(redis.call('HMGET', KEYS[2], unpack(ARGV, at, math.min(at + 999, #ARGV)))) do
    if not id and at + i - 3 <= wanted then is_news = true end
    reply[#reply + 1] = id
  end
end
if is_news and redis.call('EXISTS', KEYS[1]) == 1 and not overtaken(KEYS[1], ARGV[1]) then
  redis.call('HDEL', KEYS[1], 'body_hash', 'etag', 'last_modified')
  reply[1] = 1
end
return reply
