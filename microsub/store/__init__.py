"""The only user of Redis: items, timelines, channels, feeds, the schedule and accounts."""
