"""Tokens of other programs, which read the post store and nothing else.

A token is `~<name>.<secret>`: the `~` can't stand in a user's name, so it is never taken for a reader's token, nor the
other way round. Only the SHA-256 of the whole text is stored.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from microsub.errors import InvalidRequest, Unauthorized
from microsub.identity.store.grants import secret_digest as _digest
from microsub.model.moments import is_moment
from microsub.model.reader import NAME
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import raw_fields, reading

MARK = "~"
LONGEST_TOKEN = 512
_NOBODY = "0" * 64
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ServiceToken:
    """A token as the admin may see it: never the secret. Times are Unix seconds; `expires` None means never."""

    name: str
    created: float
    expires: float | None = None


class ServiceTokens:
    """The tokens by the name of the program that uses them; one each."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def create(self, name: str, now: float, expires: float | None = None) -> str:
        """Make a token and return it: the only time that it is seen.

        Raises InvalidRequest when the name isn't `[A-Za-z0-9_-]{1,64}`, or has a token already, and for an end that is
        no time before the year 10000.
        """
        if expires is not None and not is_moment(expires):
            raise InvalidRequest(f"'expires' is {expires:g}: expected a Unix time before the year 10000")
        if not NAME.match(name):
            raise InvalidRequest(f"'{name[:80]}' can't be the name of a program: expected 1 to 64 of A-Z a-z 0-9 _ -")
        token = f"{MARK}{name}.{secrets.token_urlsafe(32)}"
        record: dict[str, Any] = {"digest": _digest(token), "created": now}
        if expires is not None:
            record["expires"] = expires
        if not await self._redis.command("HSETNX", keys.service_tokens(), name, orjson.dumps(record)):
            raise InvalidRequest(f"there is a token for '{name}' already: revoke it first, or choose another name")
        return token

    async def all(self) -> list[ServiceToken]:
        """All tokens by name, expired ones too."""
        flat = await self._redis.command("HGETALL", keys.service_tokens())
        return sorted((_token(name, row) for name, row in raw_fields(flat).items()), key=lambda token: token.name)

    async def revoke(self, name: str) -> bool:
        """Revoke the program's token; holds from the next request on. Whether there was one."""
        return bool(await self._redis.command("HDEL", keys.service_tokens(), name))

    async def verify(self, token: str, now: float) -> str:
        """The name of the program whose token this is. Raises Unauthorized when it is unknown, expired or revoked."""
        mark, name, secret = token[:1], *token[1:].partition(".")[::2]
        if mark != MARK or not secret or len(token) > LONGEST_TOKEN or not NAME.match(name):
            raise Unauthorized("the token is not valid: expected one that 'microsub token service create' has made")
        found = await self._redis.command("HGET", keys.service_tokens(), name)
        record: Mapping[str, Any] = orjson.loads(found) if found is not None else {"digest": _NOBODY}
        is_right = hmac.compare_digest(record["digest"], _digest(token))
        if not is_right or record.get("expires", now + 1) <= now:
            raise Unauthorized("the token is unknown, expired or revoked")
        return name


def _token(name: str, row: bytes) -> ServiceToken:
    with reading(f"{keys.service_tokens()} {name}"):
        record = orjson.loads(row)
        return ServiceToken(name, record["created"], record.get("expires"))
