"""What holds in timelines of tests that don't say."""

from __future__ import annotations

from microsub.delivery.fan_out import TimelineLimits


async def default_limits(_user: str, _uid: str) -> TimelineLimits:
    """The defaults for everybody."""
    return TimelineLimits()
