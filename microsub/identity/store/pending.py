"""Sign-ins under way: what must be known when the browser comes back from the provider.

Found by the SHA-256 of `state`, taken once. Neither `state` nor the PKCE verifier stands here: the verifier is made
from the browser's own secret, of which this holds the digest.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import orjson

from microsub.redis import identitykeys as keys
from microsub.redis.protocol import Redis

LIFETIME = 900
"""Seconds: people may have to find their password for the provider."""

_BESIDE = 250
"""Bytes of a key, its digest and its time to live."""


@dataclass(frozen=True, slots=True)
class SignInUnderWay:
    """What was asked of whom. `me` is canonical, as it was entered.

    The endpoints are the provider's, `issuer` is its name, of newer ones; `names_itself` says that its answers name it.
    `base` is our address, `browser` the digest of the browser's secret, `next` where to go afterwards.
    """

    me: str
    authorization_endpoint: str
    token_endpoint: str | None
    revocation_endpoint: str | None
    issuer: str | None
    names_itself: bool
    base: str
    browser: str
    next: str


class PendingStore:
    """The sign-ins under way, by the digest of their `state`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def put(self, digest: str, sign_in: SignInUnderWay) -> None:
        """Remember a sign-in for a quarter of an hour."""
        await self._redis.command("SET", keys.sign_in(digest), _written(sign_in), "EX", LIFETIME)

    async def look(self, digest: str) -> SignInUnderWay | None:
        """The sign-in, left where it is."""
        return _read(await self._redis.command("GET", keys.sign_in(digest)))

    async def take(self, digest: str) -> bool:
        """Whether it was there still; it is gone now. Of several callers one is told so."""
        return bool(await self._redis.command("DEL", keys.sign_in(digest)))


def size_of(sign_in: SignInUnderWay) -> int:
    """How many bytes it takes in the store, key and all; roughly, and rather more."""
    return len(_written(sign_in)) + _BESIDE


def _written(sign_in: SignInUnderWay) -> bytes:
    return orjson.dumps(asdict(sign_in))


def _read(text: bytes | None) -> SignInUnderWay | None:
    if text is None:
        return None
    try:
        return SignInUnderWay(**orjson.loads(text))
    except (ValueError, TypeError):
        return None
