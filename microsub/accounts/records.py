"""Facts in users' records: whether they exist, bytes of their own posts, last requests, last uses of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from microsub.base.errors import NotFound, StoreIncomplete
from microsub.model.reader import Credential
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.scripts import batches, load

_COUNT = load("posts_count")


async def absent(redis: Redis, user: str, uid: str | None = None) -> NotFound:
    """The error for a write to `user` (and their channel `uid`) that found no record."""
    if uid is None or not await redis.command("EXISTS", keys.user(user)):
        return NotFound(f"there is no user '{user[:80]}'")
    return NotFound(f"there is no channel '{uid[:80]}'")


async def count_posts(redis: Redis, added: Mapping[str, int]) -> list[Any]:
    """Add to the bytes of these users' own posts: whether each is registered, and the new count.

    Something else for a user whose master of a cluster is away. One round trip.
    """
    try:
        return await redis.scripts([_COUNT(user, how="add", size=size) for user, size in added.items()])
    except StoreIncomplete as error:
        return error.replies


async def set_posts(redis: Redis, user: str, size: int) -> None:
    """Set the bytes of the user's own posts; nothing happens if there is no such user."""
    await redis.script(_COUNT(user, how="set", size=size))


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
            used = ("used", f"{now:.0f}")
            await self._redis.script(load("record_change")(record=place, field=held, fields=used))
