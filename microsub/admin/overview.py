"""The overview for admins: the server's health and workload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import NamedTuple, TypeVar

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


class ServerState(NamedTuple):
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


async def server_state(
    redis: Redis,
    health: Health,
    accounts: Accounts,
    presence: Presence,
    survey: Survey,
    hours: Hours,
    stages: Sequence[str],
    now: float,
) -> ServerState:
    """The state of the server at that Unix time, by the same criteria as /health. Raises StoreError.

    `stages` are the streams whose messages wait.
    """
    (report, feeds, queues, used), (alive, users, week) = await asyncio.gather(
        asyncio.gather(
            health.check(now),
            unless_away(survey.recent(now)),
            unless_away(backlogs(redis, stages)),
            unless_away(memory(redis)),
        ),
        asyncio.gather(
            unless_away(presence.alive(now)),
            unless_away(accounts.count()),
            unless_away(hours.last(now)),
        ),
    )
    workers = None if alive is None else sum(not name.endswith(TO_COME) for name in alive)
    return ServerState(report, feeds, used, queues or {}, workers, users, week or ())


async def unless_away(answer: Awaitable[T]) -> T | None:
    """The answer, or None if the part of Redis that has it is away or silent."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await answer
    except (StoreUnavailable, TimeoutError):
        return None
