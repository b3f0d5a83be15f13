"""A user's channels: their order, settings and follows."""
