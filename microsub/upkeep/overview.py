"""The overview for admins: the server's health and workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from microsub.delivery.stage import STAGES
from microsub.health import Health, HealthReport
from microsub.identity.store.accounts import Accounts
from microsub.redis.connect import RedisMemory, memory
from microsub.redis.presence import TO_COME, Presence
from microsub.redis.protocol import Redis
from microsub.redis.streams import Backlog, backlogs
from microsub.upkeep.hours import HourFigures, Hours
from microsub.upkeep.survey import FeedSums, Survey


@dataclass(frozen=True, slots=True)
class ServerState:
    """The server at some moment.

    `feeds` are missing before the first survey, `memory` if Redis doesn't report it. `queues` are the waiting messages
    by stream, `workers` the number of live workers, `hours` the figures of the last week.
    """

    health: HealthReport
    feeds: FeedSums | None
    memory: RedisMemory | None
    queues: Mapping[str, Backlog]
    workers: int
    users: int
    hours: Sequence[HourFigures]


@dataclass(eq=False, repr=False)
class ServerOverview:
    """Collects the server's state, by the same criteria as /health."""

    redis: Redis
    health: Health
    accounts: Accounts
    presence: Presence
    survey: Survey
    hours: Hours

    async def look(self, now: float) -> ServerState:
        """The state of the server at that Unix time. Raises StoreError."""
        alive = await self.presence.alive(now)
        return ServerState(
            await self.health.check(now),
            await self.survey.recent(now),
            await memory(self.redis),
            await backlogs(self.redis, STAGES),
            sum(not name.endswith(TO_COME) for name in alive),
            await self.accounts.count(),
            await self.hours.last(now),
        )
