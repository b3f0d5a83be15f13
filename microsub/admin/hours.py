"""Figures by the hour: polls, new posts and lateness of the last week, of all workers together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from microsub.base.clock import HOUR
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.structures import Hash, rows

SHOWN = 7 * 24
"""Number of hours that are shown."""
_KEPT = (SHOWN + 1) * HOUR

_ANSWERED = frozenset({"changed", "unchanged", "not_modified", "moved", "overtaken"})
"""Outcomes of a poll (`metrics.POLLS`) in which the publisher answered properly."""
_SUMS = {
    "microsub_items_new_total": "posts",
    "microsub_poll_delay_seconds_sum": "late_seconds",
    "microsub_poll_delay_seconds_count": "planned",
}


@dataclass(frozen=True, slots=True)
class HourFigures:
    """One hour, from the Unix time `begin` on.

    `polls`, the `failed` ones returned no feed; new `posts`. Of `planned` polls, `in_time` began within a minute of
    their time, and `late_seconds` is the lateness of all of them together.
    """

    begin: int
    polls: float = 0.0
    failed: float = 0.0
    posts: float = 0.0
    planned: float = 0.0
    in_time: float = 0.0
    late_seconds: float = 0.0

    @property
    def lateness(self) -> float:
        """Average lateness in seconds."""
        return self.late_seconds / self.planned if self.planned else 0.0

    @property
    def share_in_time(self) -> float:
        """The share of polls that began in time, from 0 to 1; 1 if no poll was planned."""
        return self.in_time / self.planned if self.planned else 1.0

    def __add__(self, other: HourFigures) -> HourFigures:
        """The sums of both, from the beginning of the first one."""
        return HourFigures(self.begin, *(getattr(self, name) + getattr(other, name) for name in _FIELDS))


_FIELDS = tuple(one.name for one in fields(HourFigures))[1:]


def tallied(more: Mapping[str, float]) -> dict[str, float]:
    """The amounts that samples of counters (`metrics.counts`) add to an hour. Pure."""
    found: dict[str, float] = {}
    for text, value in more.items():
        for name in _meant(*json.loads(text)):
            found[name] = found.get(name, 0.0) + value
    return {name: value for name, value in found.items() if value}


def _meant(name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    if name == "microsub_polls_total":
        return ("polls",) if labels["outcome"] in _ANSWERED else ("polls", "failed")
    if name == "microsub_poll_delay_seconds_bucket":
        return ("in_time",) if labels["le"] == "60.0" else ()
    return (_SUMS[name],) if name in _SUMS else ()


class Hours:
    """The figures in Redis, a week of them."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def add(self, more: Mapping[str, float], now: float) -> None:
        """Add the growth of samples to the hour of that Unix time."""
        await Hash(self._redis, keys.hour(str(int(now // HOUR))), _KEPT).add(tallied(more))

    async def last(self, now: float) -> list[HourFigures]:
        """The hours that are shown, the present one included, the oldest first. One round trip."""
        newest = int(now // HOUR)
        numbers = range(newest - SHOWN + 1, newest + 1)
        found = await rows(self._redis, (keys.hour(str(number)) for number in numbers), _FIELDS)
        return [
            HourFigures(number * HOUR, *(float(value or 0) for value in row))
            for number, row in zip(numbers, found, strict=True)
        ]
