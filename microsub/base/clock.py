"""Lengths of time, in seconds, and the beginning of Unix time."""

from datetime import UTC, datetime

MINUTE = 60
HOUR = 3600
DAY = 86_400
WEEK = 7 * DAY

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
