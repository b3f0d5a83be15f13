-- The unread items of a channel.
--
-- Atomic: they are read in either form. Writes nothing.
--
-- KEYS  1 unread
-- ARGV  1 most
-- reply the ids, in no certain order; or -1 if there are more than that
-- include: unread
if count_unread(KEYS[1]) > tonumber(ARGV[1]) then return -1 end
return unread_ids(KEYS[1])
