-- Replaces all fields of a hash, or deletes it, if it has the known id.
--
-- Atomic: the comparison and the writes, so that two replacements aren't mixed, and a deletion leaves another record alone.
--
-- KEYS  1 record
-- ARGV  1 known: its id, '' for any record  2 seconds: of life  3.. fields: per field: name, value; none to delete it
-- reply 1 if it was written, else 0
if ARGV[1] ~= '' and redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
