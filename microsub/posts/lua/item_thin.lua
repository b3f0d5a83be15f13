-- Deletes the fields of an item that have the value of another one, for which they then stand.
--
-- Atomic: the values are compared in the step that deletes the field.
--
-- KEYS  1 item
-- ARGV  1 how: 'thin', or 'count' to change nothing  2.. rest: per field: its name, 'other other …': the first of these
--       that isn't empty stands for it
-- reply the bytes of these fields, with their names
local bytes = 0
for at = 2, #ARGV, 2 do
  local value, stands = redis.call('HGET', KEYS[1], ARGV[at]), nil
  for other in string.gmatch(ARGV[at + 1], '%S+') do
    local found = not stands and redis.call('HGET', KEYS[1], other)
    if found and found ~= '' then stands = found end
  end
  if ARGV[at] == 'author' then stands = string.match(stands or '', '^https://[^/]+/') end
  if value and value == stands then
    bytes = bytes + #ARGV[at] + #value
    if ARGV[1] == 'thin' then redis.call('HDEL', KEYS[1], ARGV[at]) end
  end
end
return bytes
