-- The unread items of a channel.
--
-- Atomic: they are read in either form. Writes nothing.
--
-- KEYS  1 unread
-- ARGV  none
-- reply the ids, in no certain order
-- include: unread
return unread_ids(KEYS[1])
