"""Findings of a check, as values: the broken invariant, the place, and the repair."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from microsub.model.reader import TimelineItem
from microsub.redis.protocol import Command


@dataclass(frozen=True, slots=True)
class InChannel:
    """Bring one id of a channel into a valid state: its sets agree, its place follows the rules (`ruled`), or, if there
    is no such item (`missing`), it leaves permanently.
    """

    user: str
    uid: str
    item: str
    missing: bool = False
    ruled: TimelineItem | None = None


@dataclass(frozen=True, slots=True)
class InArrivals:
    """Correct an item's place in a user's order of arrival by what the channels show."""

    user: str
    item: str


Remedy = tuple[Command, ...] | InChannel | InArrivals | Literal["derive"]
"""How to repair: by idempotent commands that do no harm if the damage no longer exists; as said by the class; or by
deriving followers, addresses and the schedule from the channels (`admin.follow_repair`).
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken invariant.

    `area` is the kind of data, `subject` the key or member that it concerns.

    Two findings are the same if everything but the remedy agrees. Without a remedy a person must decide.
    """

    area: str
    subject: str
    what: str
    remedy: Remedy | None = field(default=None, compare=False)


@dataclass(slots=True)
class Findings:
    """The findings of one look, and how much it has examined."""

    found: list[Finding] = field(default_factory=list)
    examined: Counter[str] = field(default_factory=Counter)
