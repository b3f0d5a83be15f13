"""Whether users exist, and their last requests."""

from __future__ import annotations

from collections.abc import Iterable

from microsub.base.errors import NotFound
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.scripts import batches
from microsub.redis.structures import Scores, existing, together


async def absent(redis: Redis, user: str, uid: str | None = None) -> NotFound:
    """The error for a write to `user` (and their channel `uid`) that found no record."""
    if uid is None or not await existing(redis, keys.user(user)):
        return NotFound(f"there is no user '{user[:80]}'")
    return NotFound(f"there is no channel '{uid[:80]}'")


class Activity:
    """Users by the time of their last request, to within minutes. Times are Unix seconds."""

    def __init__(self, redis: Redis) -> None:
        self._seen = Scores(redis, keys.seen())

    async def note(self, user: str, now: float) -> None:
        """Record a user's request at that time; a time earlier than the known one changes nothing."""
        await self._seen.raise_to(user, f"{now:.0f}")

    async def last_seen(self, users: Iterable[str]) -> dict[str, float]:
        """The time when each of these users was last seen, without users who never were. One round trip."""
        names = list(dict.fromkeys(users))
        found = await together(*map(self._seen.get_many, batches(names)))
        times = [at for some in found for at in some]
        return {user: float(at) for user, at in zip(names, times, strict=True) if at is not None}
