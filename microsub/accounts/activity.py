"""Times of users' last requests, and of tokens' last uses.

A delivery serves active users first (`settings.delivery` of backend.json), and the account page shows the last use of
each app. No request waits for such a note, or fails because of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

import structlog

from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import StoreError
from microsub.model.reader import Credential
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.scripts import batches, load

Who = TypeVar("Who", bound=Hashable)

log = structlog.get_logger(__name__)


class Activity:
    """Users by the time of their last request, to within minutes. Times are Unix seconds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def note(self, user: str, now: float) -> None:
        """Record a user's request at that time; a time earlier than the known one changes nothing."""
        await self._redis.command("ZADD", keys.seen(), "GT", f"{now:.0f}", user)

    async def last_seen(self, users: Iterable[str]) -> dict[str, float]:
        """The time when each of these users was last seen, without users who never were. One round trip."""
        names = list(dict.fromkeys(users))
        asked = [("ZMSCORE", keys.seen(), *batch) for batch in batches(names)]
        times = [at for reply in await self._redis.pipeline(asked) for at in reply]
        return {user: float(at) for user, at in zip(names, times, strict=True) if at is not None}


class TokenUse:
    """The times of tokens' last uses, in their records or their grants'. Times are Unix seconds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def note(self, credential: Credential, now: float) -> None:
        """Record a token's use at that time; nothing happens if it isn't one of our valid tokens."""
        key = keys.token(credential.user, credential.digest)
        foreign, grant = await self._redis.command("HMGET", key, "foreign", "grant")
        # The use of a grant's token is recorded at the grant, because its tokens are replaced often.
        place, held = (key, "scope") if grant is None else (keys.grant(credential.user, text(grant)), "refresh")
        if foreign is None:
            await self._redis.script(load("record_change"), [place], [held, "", "", "used", f"{now:.0f}"])


EVERY = 300.0
"""Seconds between two notes for the same user or token by one process."""
_MOST_NOTED = 100_000


class ActivityNotes(Generic[Who]):
    """For users by name, or for tokens by credential. Belongs to one event loop."""

    def __init__(self, write: Callable[[Who, float], Awaitable[None]]) -> None:
        """`write` stores one use at that Unix time."""
        self._store = write
        self._noted: BoundedCache[Who, float] = BoundedCache(_MOST_NOTED)
        self._writing: set[asyncio.Task[None]] = set()

    def note(self, who: Who, now: float) -> None:
        """Record a request at that Unix time. Doesn't wait, and doesn't fail."""
        if now - self._noted.get(who, float("-inf")) < EVERY:
            return
        self._noted[who] = now
        task = asyncio.create_task(self._write(who, now), name="seen")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def aclose(self) -> None:
        """Wait for unfinished writes."""
        await asyncio.gather(*self._writing)

    async def _write(self, who: Who, now: float) -> None:
        try:
            await self._store(who, now)
        except StoreError as error:
            self._noted.pop(who)
            log.info("the time of a visit could not be stored", error=str(error))
