"""When users were last seen, for a fan-out that serves the lively ones first (`settings.delivery` of backend.json), and
when their tokens were last used, for their account's page. To within minutes.
"""

from __future__ import annotations

from collections.abc import Iterable

from microsub.identity.store.grants import grant_pattern
from microsub.model.reader import Credential
from microsub.redis import keys
from microsub.redis.protocol import Redis
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
    """When tokens were last used, at their records or those of their grants. Times are Unix seconds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def note(self, credential: Credential, now: float) -> None:
        """The token was used at that time; nothing where it isn't one of ours any more."""
        key = keys.token(credential.user, credential.digest)
        await self._redis.script(load("token_used"), [key], [f"{now:.0f}", grant_pattern(credential.user)])
