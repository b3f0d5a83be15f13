"""Tokens issued by users' own providers, with the providers' last responses.

A token that a provider confirmed is stored as a token record in the user's slot, where every script that checks tokens
finds it, so a request with it costs as much as one with our own token. Only the SHA-256 of the token is stored.
`identity.foreign_tokens` decides whether a provider must be asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from microsub.accounts.store import User, read_user
from microsub.base.clock import DAY
from microsub.base.digests import sha256_hex
from microsub.model.reader import Credential
from microsub.redis import keys
from microsub.redis.lease import leased
from microsub.redis.protocol import Redis
from microsub.redis.scripts import load
from microsub.redis.structures import Scores, together


class UnknownTokens(NamedTuple):
    """Requests per minute to a user's provider about unknown tokens, counted in Redis; 60 in all.

    `known`: from networks that sent a valid token lately; `first`: the first ones of any network; `rest`: further
    ones. `of_…`: how many of them one network may use (`of_first`: in IPv6, one /48).
    """

    known: int = 20
    of_known: int = 10
    first: int = 24
    of_first: int = 2
    rest: int = 16
    of_rest: int = 16


KNOWN_NETWORK = 30 * DAY
"""How long a network stays known after it sent a valid token."""

MOST_REMEMBERED = 100
"""Tokens of one user's provider that are stored; if there are more, expired ones are removed first."""

PERIOD = 60
"""Seconds over which checks of unknown tokens are counted."""


MOST_NETWORKS = 50
"""Known networks of one user; if there are more, those seen last are kept."""


class Vouched(NamedTuple):
    """A provider's confirmation of a token. Unix seconds: of the response, and of the end in it."""

    scopes: frozenset[str]
    client: str
    checked: float
    ends: float | None = None


class KnownToken(NamedTuple):
    """The stored facts about a token, before a provider is asked.

    `user` is None if there is none, or if they are disabled. `vouched` is the last positive response, `until` the
    Unix time until which it is valid; `refused` is why a recent check failed.
    """

    user: User | None
    vouched: Vouched | None = None
    until: float = 0.0
    refused: str | None = None


class ForeignTokens:
    """Other providers' tokens in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def known_token(self, credential: Credential) -> KnownToken:
        """The stored facts about the token and its user, in one round trip."""
        user, digest = credential.user, credential.digest
        account, record, refused = await self._redis.pipeline(
            [
                ("HGETALL", keys.user(user)),
                ("HMGET", keys.token(user, digest), "foreign", "scope", "client", "checked", "ends", "expires"),
                ("GET", keys.foreign_refused(user, digest)),
            ]
        )
        found = read_user(user, account)
        foreign, scope, client, checked, ends, expires = record
        vouched = None
        if foreign is not None:
            end = None if ends is None else float(ends)
            vouched = Vouched(frozenset(scope.decode().split()), client.decode(), float(checked), end)
        who = found if found is not None and found.disabled is None else None
        return KnownToken(who, vouched, float(expires or 0), refused.decode() if refused else None)

    async def remember(self, who: User, digest: str, vouched: Vouched, *, until: float, grace: float) -> bool:
        """Store a token as valid until that Unix time, and keep the record for `grace` seconds more.

        False, without a change, if the user is disabled or another one by now, so that the response concerned another
        identity.
        """
        user = who.name
        end = until + grace if vouched.ends is None else min(until + grace, vouched.ends)
        life = max(1, math.ceil(end - vouched.checked))
        kept = await self._redis.script(
            load("foreign_remember")(
                user,
                digest,
                digest=digest,
                me=who.me,
                endpoint=who.token_endpoint or "",
                scopes=_text(vouched.scopes),
                client=vouched.client,
                now=vouched.checked,
                until=until,
                end=end,
                life=life,
                ends="" if vouched.ends is None else vouched.ends,
                most=MOST_REMEMBERED,
            )
        )
        if kept:
            await self._redis.command("SET", keys.foreign_owner(digest), user, "EX", life)
        return bool(kept)

    async def prolong(self, credential: Credential, until: float) -> bool:
        """Extend the validity of a known token until that Unix time; False if it isn't known any more."""
        key = keys.token(credential.user, credential.digest)
        call = load("record_change")(record=key, field="foreign", fields=("expires", until))
        return bool(await self._redis.script(call))

    async def refuse(self, credential: Credential, reason: str, seconds: int) -> None:
        """Forget the token, and don't ask about it again for that many seconds."""
        user, digest = credential.user, credential.digest
        key = keys.token(user, digest)
        await self.note(credential, reason, seconds)
        # Only one process at a time asks about a token, so no other writes its record; our own tokens stay.
        if await self._redis.command("HEXISTS", key, "foreign"):
            await self._redis.pipeline([("DEL", key), ("ZREM", keys.foreign(user), digest)])

    async def note(self, credential: Credential, reason: str, seconds: int) -> None:
        """Don't ask about the token for that many seconds, because the last check had no result."""
        key = keys.foreign_refused(credential.user, credential.digest)
        await self._redis.command("SET", key, reason, "EX", seconds)

    async def count(self, user: str, network: str, site: str, shares: UnknownTokens, now: float) -> int:
        """Count a check of an unknown token from the client's network.

        `site` is the larger network around it, or the same. Returns 0, or the seconds until the next check is allowed;
        then this one isn't counted.
        """
        call = load("foreign_count")(
            user,
            network=sha256_hex(network),
            site=sha256_hex(site),
            since=now - KNOWN_NETWORK,
            known=shares.known,
            of_known=shares.of_known,
            first=shares.first,
            of_first=shares.of_first,
            further=shares.rest,
            of_further=shares.of_rest,
            period=PERIOD,
        )
        return int(await self._redis.script(call))

    async def know(self, user: str, network: str, now: float) -> None:
        """Record that a valid token of the user's provider came from that network."""
        known = Scores(self._redis, keys.foreign_networks(user), KNOWN_NETWORK)
        await together(known.set({sha256_hex(network): now}), known.trim(MOST_NETWORKS))

    def asking(self, credential: Credential, seconds: float) -> AbstractAsyncContextManager[object]:
        """Whether this process must ask about the token, for the block; other processes wait for it."""
        return leased(self._redis, f"foreign:{credential.user}:{credential.digest}", seconds)

    async def owner(self, digest: str) -> str | None:
        """The user whose provider last confirmed the token, which may have been revoked since."""
        found = await self._redis.command("GET", keys.foreign_owner(digest))
        return None if found is None else str(found.decode())


def _text(scopes: Iterable[str]) -> str:
    return " ".join(sorted(scopes))
