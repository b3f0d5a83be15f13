-- Replaces the plain JSON of an item by its packed form.
--
-- Atomic: the item still has the JSON that was packed, otherwise it is left alone. The whole hash is written again,
-- because Redis keeps a hash that ever had a long value as a table, which takes twice the memory.
--
-- KEYS  1 item
-- ARGV  1 plain: the JSON that was packed  2 packed: its packed form
-- reply 1 if it was replaced, otherwise 0
if redis.call('HGET', KEYS[1], 'Data') ~= ARGV[1] then return 0 end
local fields = redis.call('HGETALL', KEYS[1])
for at = 1, #fields, 2 do
  if fields[at] == 'Data' then fields[at + 1] = ARGV[2] end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(fields))
return 1
