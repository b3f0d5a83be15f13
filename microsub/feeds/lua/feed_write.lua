-- Sets and deletes fields of a feed, at the end of a poll with the fingerprints of its document's entries.
--
-- Atomic: only an existing feed is written to; an expired one must not be recreated without a time to live.
-- Fingerprints are never stored with another document's hash. A reading writes nothing if a later one has begun, whose
-- document it doesn't know.
--
-- KEYS  1 feed  2 feed_fingerprints
-- ARGV  1 reading: the one that writes, or ''  2 fingerprints: or '' to leave them unchanged  3 life: their time to
--       live in seconds, from the first ones on  4.. fields: per field: name, '1' to set or '' to delete, value
-- reply 1 if it was written, otherwise 0
-- include: fields
-- include: overtaken
if redis.call('EXISTS', KEYS[1]) == 0 or overtaken(KEYS[1], ARGV[1]) then return 0 end
for at = 4, #ARGV, 3 do set_field(KEYS[1], ARGV[at], ARGV[at + 1] == '1' and ARGV[at + 2]) end
if ARGV[2] ~= '' then
  local left = redis.call('PTTL', KEYS[2])
  redis.call('SET', KEYS[2], ARGV[2], 'PX', left > 0 and left or ARGV[3] * 1000)
end
return 1
