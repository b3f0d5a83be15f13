"""The embedded default: a Redis server of our own for a data folder."""
