"""Authorization codes of our own IndieAuth server: good once, and for a short time.

A code is `<user>.<secret>`; only its SHA-256 is stored, in the user's slot, so that what it is exchanged for is written
by the same script that uses it up. Its record outlives it by an hour, in which a second use is noticed.

Specs: RFC 6749, sections 4.1.2 and 10.5; https://indieauth.spec.indieweb.org/#redeeming-the-authorization-code.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from microsub.identity.lifetimes import ACCESS_TOKEN, CODE, CODE_KEPT, CODE_REPEAT, GRANT
from microsub.identity.store.absent import absent
from microsub.identity.store.grants import (
    LONGEST_SECRET,
    Issued,
    derive,
    grant_pattern,
    new_seed,
    pattern,
    secret_digest,
)
from microsub.model.reader import NAME
from microsub.redis import identitykeys, keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.scripts import load


@dataclass(frozen=True, slots=True)
class Consent:
    """What a user has agreed to. `title` is the app's name as it was shown; `challenge` is PKCE's, S256, or empty."""

    user: str
    client: str
    title: str
    redirect: str
    scopes: frozenset[str]
    challenge: str = ""


class Spent(Enum):
    """What became of a code that was shown. AGAIN: the same was given a moment ago. REFUSED: the request doesn't fit
    the code, which is used up by that. REUSED: it was used before, and what was given for it has been taken back. FULL:
    the user may have no more tokens; the code stays good.
    """

    GIVEN = "given"
    AGAIN = "again"
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    DISABLED = "disabled"
    REFUSED = "refused"
    REUSED = "reused"
    FULL = "full"

    @property
    def good(self) -> bool:
        """Whether the asker gets what the code is for."""
        return self in {Spent.GIVEN, Spent.AGAIN}


class Codes:
    """Codes in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def create(self, consent: Consent, now: float) -> str:
        """Make a code and return it: the only time that it is seen. Raises NotFound for a user who is unknown or
        disabled.
        """
        code = f"{consent.user}.{secrets.token_urlsafe(32)}"
        fields: tuple[Arg, ...] = (
            *("client", consent.client, "title", consent.title, "redirect", consent.redirect),
            *("scope", " ".join(sorted(consent.scopes)), "challenge", consent.challenge),
            *("seed", new_seed(), "expires", now + CODE),
        )
        where = [keys.user(consent.user), identitykeys.code(consent.user, secret_digest(code))]
        if not await self._redis.script(load("code_create"), where, [CODE_KEPT, *fields]):
            raise await absent(self._redis, consent.user)
        return code

    async def find(self, code: str) -> Consent | None:
        """What the code stands for, used or not; None for what is no code of ours, or none any more."""
        found = await self._read(code)
        return found[0] if found else None

    async def redeem_profile(self, code: str, fits: Callable[[Consent], bool], now: float) -> Spent:
        """Use the code up for no more than knowing who it stands for. `fits`: see `redeem`."""
        found = await self._read(code)
        if found is None:
            return Spent.UNKNOWN
        consent, seed = found
        return await self._spend(
            consent.user, code, _grant(seed, code), "-", [now, *_verdict(fits, consent), "profile"]
        )

    async def redeem(
        self, code: str, verifier: str, fits: Callable[[Consent], bool], now: float, most: int = 0
    ) -> tuple[Spent, Issued | None]:
        """Use the code up for a grant; its tokens where `Spent.good`. That it has a scope is for the caller to
        see.

        `fits` says whether client, redirect and `verifier` (which may be empty) are those of the code. Where they
        aren't, the code is in wrong hands, and nobody gets anything for it any more. `most` is how many grants and
        tokens the user may have, 0 for any number.
        """
        found = await self._read(code)
        if found is None:
            return Spent.UNKNOWN, None
        consent, seed = found
        user, grant = consent.user, _grant(seed, code)
        access = f"{user}.{derive(seed, 'access', code, verifier)}"
        refresh = f"{user}.{grant}.{derive(seed, 'refresh', code, verifier)}"
        spent = await self._spend(
            user,
            code,
            grant,
            secret_digest(access),
            [now, *_verdict(fits, consent), "token"],
            [
                *(grant, secret_digest(access), now + ACCESS_TOKEN),
                *(secret_digest(refresh), new_seed(), now + GRANT),
                *(most, grant_pattern(user)),
            ],
        )
        issued = Issued(user, consent.client, access, refresh, consent.scopes, ACCESS_TOKEN)
        return spent, issued if spent.good else None

    async def _spend(
        self, user: str, code: str, grant: str, access: str, head: list[Arg], more: list[Arg] | None = None
    ) -> Spent:
        where = [
            *(
                keys.user(user),
                identitykeys.code(user, secret_digest(code)),
                identitykeys.grant(user, grant),
                identitykeys.grants(user),
            ),
            *(keys.token(user, access), keys.tokens(user)),
        ]
        reply = await self._redis.script(load("code_redeem"), where, [*head, CODE_REPEAT, pattern(user), *(more or [])])
        return Spent(reply.decode())

    async def _read(self, code: str) -> tuple[Consent, str] | None:
        """What the code stands for, and its seed."""
        user, dot, _ = code.partition(".")
        if not dot or len(code) > LONGEST_SECRET or not NAME.match(user):
            return None
        names = ("client", "title", "redirect", "scope", "challenge", "seed")
        row = await self._redis.command("HMGET", identitykeys.code(user, secret_digest(code)), *names)
        if row[0] is None:
            return None
        client, title, redirect, scope, challenge, seed = (part.decode() if part else "" for part in row)
        return Consent(user, client, title, redirect, frozenset(scope.split()), challenge), seed


def _verdict(fits: Callable[[Consent], bool], consent: Consent) -> tuple[Arg]:
    return (1 if fits(consent) else 0,)


def _grant(seed: str, code: str) -> str:
    """The id of the grant that this code may become; known before there is one, so that a second use finds it."""
    return derive(seed, "grant", code)[:22]
