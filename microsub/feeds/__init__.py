"""A feed: its record, addresses, health and followers, and when it is due."""
