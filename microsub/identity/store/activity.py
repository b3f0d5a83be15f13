"""When users were last seen, and their tokens last used, to within minutes.

A fan-out serves the lively users first (`settings.delivery` of backend.json), and an account's page shows when each app
was last used. No request waits for a note, or fails by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

import structlog

from microsub.errors import StoreError
from microsub.model.reader import Credential
from microsub.redis import identitykeys, keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.scripts import batches, load

_AT_ONCE = 1000


class Activity:
    """Users by the time of their last request, to within minutes. Times are Unix seconds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def note(self, user: str, now: float) -> None:
        """The user was there at that time; an earlier time than the known one changes nothing."""
        await self._redis.command("ZADD", keys.seen(), "GT", f"{now:.0f}", user)

    async def last_seen(self, users: Iterable[str]) -> dict[str, float]:
        """When each of these users was last seen; those who never were are left out. One round trip."""
        names = list(dict.fromkeys(users))
        asked = [("ZMSCORE", keys.seen(), *batch) for batch in batches(names, _AT_ONCE)]
        times = [at for reply in await self._redis.pipeline(asked) for at in reply]
        return {user: float(at) for user, at in zip(names, times, strict=True) if at is not None}


class TokenUse:
    """When tokens were last used, at their records or their grants'. Times are Unix seconds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def note(self, credential: Credential, now: float) -> None:
        """The token was used at that time; nothing where it isn't one of ours any more."""
        key = keys.token(credential.user, credential.digest)
        foreign, grant = await self._redis.command("HMGET", key, "foreign", "grant")
        # Tokens of a grant come and go.
        place, held = (key, "scope") if grant is None else (identitykeys.grant(credential.user, text(grant)), "refresh")
        if foreign is None:
            await self._redis.script(load("record_change"), [place], [held, "", "", "used", f"{now:.0f}"])


Who = TypeVar("Who", bound=Hashable)


log = structlog.get_logger(__name__)

EVERY = 300.0
"""Seconds between two notes for the same user or token by one process."""
_MOST = 100_000


class ActivityNotes(Generic[Who]):
    """For users by name, or for tokens by credential. Belongs to one event loop."""

    def __init__(self, write: Callable[[Who, float], Awaitable[None]]) -> None:
        """`write` stores that one was there at that Unix time."""
        self._store = write
        self._noted: dict[Who, float] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def note(self, who: Who, now: float) -> None:
        """A request at that Unix time. Doesn't wait, and doesn't fail."""
        if now - self._noted.get(who, float("-inf")) < EVERY:
            return
        if len(self._noted) >= _MOST:
            self._noted.clear()
        self._noted[who] = now
        task = asyncio.create_task(self._write(who, now), name="seen")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def aclose(self) -> None:
        """Wait for what is being written."""
        await asyncio.gather(*self._writing)

    async def _write(self, who: Who, now: float) -> None:
        try:
            await self._store(who, now)
        except StoreError as error:
            self._noted.pop(who, None)
            log.info("the time of a visit could not be stored", error=str(error))
