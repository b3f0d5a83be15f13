"""Feeds: records, addresses, health and followers, and when each is due."""
