"""Times as they are kept: Unix seconds, within what calendars and Redis can deal with."""

from __future__ import annotations

import math

LATEST = 253_402_300_799.0
"""The last second of the year 9999. Python's calendar ends there."""


def number(text: str | bytes | None) -> float | None:
    """The finite number that a text holds; None where it holds none."""
    try:
        value = math.nan if text is None else float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def moment(text: str | bytes | None) -> float | None:
    """The time that a text holds, from 1970 to the year 9999; None where it holds none."""
    value = number(text)
    return value if value is not None and is_moment(value) else None


def is_moment(value: float) -> bool:
    """Whether the number is a time that may be kept."""
    return 0 <= value <= LATEST  # neither holds for NaN


CLOCKS_DIFFER = 600.0
"""Seconds by which the clocks of machines may differ; what lies further ahead was written by a clock that was wrong."""


def is_ahead(time: float | None, now: float) -> bool:
    """Whether the Unix time of something past lies ahead of now, further than clocks differ."""
    return time is not None and time > now + CLOCKS_DIFFER
