-- The unread items of a channel.
--
-- Atomic: they are read in either form. Writes nothing.
--
-- KEYS  1 unread
-- ARGV  1 most
-- reply the ids, in no certain order; or their number if there are more than that
-- include: unread
local count = count_unread(KEYS[1])
if count > tonumber(ARGV[1]) then return count end
return unread_ids(KEYS[1])
