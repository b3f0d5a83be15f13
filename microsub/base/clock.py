"""Lengths of time, in seconds."""

MINUTE = 60
HOUR = 3600
DAY = 86_400
WEEK = 7 * DAY
