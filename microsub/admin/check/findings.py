"""Findings of a check, as values: the broken invariant, the place, and the repair."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from microsub.model.reader import TimelineItem
from microsub.redis.protocol import Command


@dataclass(frozen=True, slots=True)
class InTimeline:
    """Bring one id of a channel into a valid state: its sets agree, its place follows the rules (`ruled`), or, if there
    is no such item (`missing`), it leaves permanently.

    Without `uid`: correct its place in the user's order of arrival by the channels that show it.
    """

    user: str
    uid: str | None
    item: str
    missing: bool = False
    ruled: TimelineItem | None = None


Remedy = tuple[Command, ...] | InTimeline | Literal["derive"]
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
