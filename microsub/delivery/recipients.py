"""Who gets a post at once, and whose timelines are filled when they read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from microsub.configuration.model import DeliverySettings

DAY = 86_400.0

Place = tuple[str, str]
"""User and channel uid."""


@dataclass(frozen=True, slots=True)
class Recipients:
    """Timelines that get something now, and those that get it when they are read."""

    now: Sequence[Place]
    later: Sequence[Place] = ()


def chooses(delivery: DeliverySettings, subscribers: int) -> bool:
    """Whether anybody may be left for later, so that it matters when users were last seen."""
    return bool(delivery.away_days) or 0 < delivery.fan_out_limit < subscribers


def recipients(
    places: Sequence[Place], last_seen: Mapping[str, float], delivery: DeliverySettings, now: float
) -> Recipients:
    """Leave out who wasn't seen for `away_days`, and of the rest all but the `fan_out_limit` seen last.

    Who was never seen counts as away. Between equals, the order of `places` decides.
    """
    if not chooses(delivery, len(places)):
        return Recipients(places)
    since = now - delivery.away_days * DAY if delivery.away_days else float("-inf")
    never = float("-inf")
    there = [place for place in places if not delivery.away_days or last_seen.get(place[0], never) >= since]
    if 0 < delivery.fan_out_limit < len(there):
        there = nlargest(delivery.fan_out_limit, there, key=lambda place: last_seen.get(place[0], never))
    chosen = set(there)
    return Recipients(there, [place for place in places if place not in chosen])
