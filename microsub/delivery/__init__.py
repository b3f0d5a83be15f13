"""The way from a stored post to timelines: streams, stages, look-ups, dead letters."""
