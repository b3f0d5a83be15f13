-- Appends messages to a stream.
--
-- Atomic: all messages or none, and their bytes with them, so that the backlog is never counted wrongly.
--
-- KEYS  1 stream  2 bytes of what waits in it
-- ARGV  per message: bytes, n, n names and values in turn
-- reply ids
-- include: stream_append
return stream_append(KEYS[1], KEYS[2], 1)
