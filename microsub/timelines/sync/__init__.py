"""Synchronisation of apps with a user: the order of arrival, and the stream of changes."""
