"""Access tokens of our own issue, for whoever shows one: what it allows, and its end.

What other providers' tokens allow is remembered beside them (`identity.store.foreign`), and isn't ours to tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from microsub.identity.store.derived import LONGEST, digest
from microsub.identity.store.grants import end_grant
from microsub.model.reader import NAME
from microsub.redis import keys
from microsub.redis.protocol import Redis


@dataclass(frozen=True, slots=True)
class OwnToken:
    """A good token. Times are Unix seconds; `expires` None means never; `me` is its user's profile URL, or empty."""

    user: str
    me: str
    scopes: frozenset[str]
    client: str
    created: float
    expires: float | None


class OwnTokens:
    """Tokens in Redis, by their text."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def find(self, token: str, now: float) -> OwnToken | None:
        """What the token allows; None for one that is unknown, expired, revoked, of a disabled user or not ours."""
        user = _user(token)
        if user is None:
            return None
        row, owner = await self._redis.pipeline(
            [
                ("HMGET", keys.token(user, digest(token)), "scope", "client", "created", "expires", "foreign"),
                ("HMGET", keys.user(user), "me", "created", "disabled"),
            ]
        )
        scope, client, created, expires, foreign = (part.decode() if part is not None else None for part in row)
        me, known, disabled = owner
        if scope is None or foreign is not None or known is None or disabled is not None:
            return None
        ends = float(expires) if expires is not None else None
        if ends is not None and ends <= now:
            return None
        scopes, made = frozenset(scope.split()), float(created or 0)
        return OwnToken(user, (me or b"").decode(), scopes, client or "", made, ends)

    async def revoke(self, token: str) -> bool:
        """End an access token with all else of its grant, from the next request on; whether there was one."""
        user = _user(token)
        if user is None:
            return False
        key = keys.token(user, digest(token))
        created, foreign, grant = await self._redis.command("HMGET", key, "created", "foreign", "grant")
        if created is None or foreign is not None:
            return False
        if grant is not None and await end_grant(self._redis, user, grant.decode()):
            return True
        # The token first: what a crash leaves in the list names nothing any more.
        deleted = await self._redis.command("DEL", key)
        await self._redis.command("SREM", keys.tokens(user), digest(token))
        return bool(deleted)


def _user(token: str) -> str | None:
    user, dot, secret = token.partition(".")
    return user if dot and secret and len(token) <= LONGEST and NAME.match(user) else None
