"""Followed feeds: each with its condition and settings, all as a table, and those of a channel in the sidebar."""
