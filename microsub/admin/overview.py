"""The overview for admins: the server's health and workload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from microsub.accounts import Accounts
from microsub.admin.health import Health, HealthReport
from microsub.admin.hours import HourFigures, Hours
from microsub.admin.survey import FeedSums, Survey
from microsub.base.errors import StoreUnavailable
from microsub.redis.connect import memory
from microsub.redis.presence import TO_COME, Presence
from microsub.redis.protocol import Redis
from microsub.work import Backlog, backlogs

T = TypeVar("T")

PATIENCE = 3.0
"""Seconds to wait for each figure: a master that hangs doesn't reply."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """The server at some moment.

    `feeds` are missing before the first survey, `memory` (used bytes, and the limit or 0) if Redis doesn't report it.
    `queues` are the waiting messages by stream, `workers` the number of live workers, `hours` the figures of the last
    week. Figures that can't be read, because a part of Redis is away, are missing: None, or empty.
    """

    health: HealthReport
    feeds: FeedSums | None
    memory: tuple[int, int] | None
    queues: Mapping[str, Backlog]
    workers: int | None
    users: int | None
    hours: Sequence[HourFigures]


@dataclass(eq=False, repr=False)
class ServerOverview:
    """Collects the server's state, by the same criteria as /health. `stages` are the streams whose messages wait."""

    redis: Redis
    health: Health
    accounts: Accounts
    presence: Presence
    survey: Survey
    hours: Hours
    stages: Sequence[str]

    async def look(self, now: float) -> ServerState:
        """The state of the server at that Unix time. Raises StoreError."""
        (health, feeds, queues, used), (alive, users, hours) = await asyncio.gather(
            asyncio.gather(
                self.health.check(now),
                unless_away(self.survey.recent(now)),
                unless_away(backlogs(self.redis, self.stages)),
                unless_away(memory(self.redis)),
            ),
            asyncio.gather(
                unless_away(self.presence.alive(now)),
                unless_away(self.accounts.count()),
                unless_away(self.hours.last(now)),
            ),
        )
        workers = None if alive is None else sum(not name.endswith(TO_COME) for name in alive)
        return ServerState(health, feeds, used, queues or {}, workers, users, hours or ())


async def unless_away(answer: Awaitable[T]) -> T | None:
    """The answer, or None if the part of Redis that has it is away or silent."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await answer
    except (StoreUnavailable, TimeoutError):
        return None
