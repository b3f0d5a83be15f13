-- One channel and its unread count.
--
-- Atomic: the count belongs to the channel as the reply has it. Writes nothing.
--
-- KEYS  1 channel  2 unread
-- ARGV  1.. fields
-- reply {{the fields' values}, unread}
-- include: unread
return { redis.call('HMGET', KEYS[1], unpack(ARGV)), count_unread(KEYS[2]) }
