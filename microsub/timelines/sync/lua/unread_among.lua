-- Which of the named items are unread in a channel.
--
-- Atomic: they are read in either form. Writes nothing.
--
-- KEYS  1 unread
-- ARGV  1.. ids: at least one
-- reply '1' or '0' for each
-- include: unread
local found = are_unread(KEYS[1], ARGV)
for i, is_open in ipairs(found) do found[i] = is_open and '1' or '0' end
return table.concat(found)
