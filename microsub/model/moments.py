"""Times as they are stored: Unix seconds, within the limits of calendars and Redis."""

from __future__ import annotations

import math

LATEST = 253_402_300_799.0
"""The last second of the year 9999. Python's calendar ends there."""


def number(text: str | bytes | None) -> float | None:
    """The finite number in a text; None if it has none."""
    try:
        value = math.nan if text is None else float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def moment(text: str | bytes | None) -> float | None:
    """The time in a text, from 1970 to the year 9999; None if it has none."""
    value = number(text)
    return value if value is not None and is_moment(value) else None


def is_moment(value: float) -> bool:
    """Whether the number is a time that may be stored."""
    return 0 <= value <= LATEST  # both are false for NaN


CLOCKS_DIFFER = 600.0
"""Seconds by which the clocks of machines may differ; a time further ahead was written by a wrong clock."""


def is_ahead(time: float | None, now: float) -> bool:
    """Whether the Unix time of a past event is ahead of now by more than clocks may differ."""
    return time is not None and time > now + CLOCKS_DIFFER
