-- Sets or deletes fields of a hash if all of them still have the values that were read.
--
-- Atomic: the comparison and the writes, so that other writers' changes are never lost.
--
-- KEYS  1 record  2 user?: if the user must exist and not be disabled
-- ARGV  1.. fields: per field: name, value that was read ('' for none), new value ('' for none)
-- reply 1 if they were changed, else 0
-- include: active
-- include: fields
if KEYS[2] and not is_active(KEYS[2]) then return 0 end
for i = 1, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
end
for i = 1, #ARGV, 3 do set_field(KEYS[1], ARGV[i], ARGV[i + 2] ~= '' and ARGV[i + 2]) end
return 1
