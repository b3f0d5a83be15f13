"""Tokens of other providers: checked with the user's own provider, and remembered.

Asked for only where the store doesn't know the token as good: what a provider said is remembered there as a token
record (`identity.store.foreign`), for `token_cache` seconds, after which it is asked again; so a revocation is noticed
then. While it can't be asked, what it said last serves for `token_grace` seconds more, and then the answer is 503: a
401 would sign people out.

What strangers may cause is bounded: a refusal is remembered, one question at a time is asked about a token, by all
processes together, and a limited number a minute about tokens that nobody has vouched for yet. Of that number, one part
is for networks that are known by a good token, and one for the first tokens from wherever, so that a few addresses full
of made-up ones don't keep a new app of the user's outside.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from microsub import metrics
from microsub.configuration.model import IdentitySettings
from microsub.errors import Forbidden, MicrosubError, ProviderUnavailable, TooManyRequests, Unauthorized
from microsub.formats.entry_id import mask_credentials
from microsub.identity.lifetimes import REFUSED_TOKEN
from microsub.identity.limits import UnknownTokens
from microsub.identity.store.foreign import ForeignTokens, Principal, Standing, TokenOrigin, Vouched
from microsub.identity.tokens.introspection import SECONDS, Another, Denied, Good, Said, Silent
from microsub.kit.rate_limits import network_of, wide_network_of
from microsub.model.reader import Credential, Grant
from microsub.model.scopes import understood

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CheckTimes:
    """Bounds, in seconds: how long a refusal is remembered, how soon a provider that couldn't be asked is asked again
    about a token (`again`; `while_known` where an earlier answer serves), how long to wait for another process that
    asks; and questions a minute about unknown tokens of a user (`shares`).
    """

    refused: int = REFUSED_TOKEN
    again: int = 10
    while_known: float = 30.0
    patience: float = SECONDS + 2
    shares: UnknownTokens = field(default_factory=UnknownTokens)
    look: float = 0.05


class IntrospectionPort(Protocol):
    """What is needed of `identity.tokens.introspection.Introspection`."""

    async def ask(self, who: Principal, token: str, now: float) -> Said:
        """What the provider says."""
        ...


class ForeignTokenCheck:
    """Checks tokens with users' providers. `settings` gives those in force."""

    def __init__(
        self,
        tokens: ForeignTokens,
        vouching: IntrospectionPort,
        settings: Callable[[], IdentitySettings],
        pace: CheckTimes | None = None,
    ) -> None:
        self._tokens = tokens
        self._vouching = vouching
        self._settings = settings
        self._pace = pace or CheckTimes()
        self._flying: dict[Credential, asyncio.Task[Grant]] = {}

    async def check(self, credential: Credential, token: str, address: str, now: float) -> Grant:
        """What `token` allows at the user that `credential` names; `address` is where it came from.

        After it, the token stands in the store as one that is good, so any script finds it. Raises Unauthorized for a
        token that the user's provider doesn't vouch for, Forbidden for one of somebody else, ProviderUnavailable when
        it can't be asked, and TooManyRequests.
        """
        flight = self._flying.get(credential)
        if flight is None:
            flight = asyncio.create_task(self._check(credential, token, address, now), name="token check")
            self._flying[credential] = flight
            flight.add_done_callback(lambda done: self._landed(credential, done))
        # A caller that is cancelled doesn't cancel the check for others.
        return await asyncio.shield(flight)

    async def owner(self, digest: str) -> str | None:
        """Whose provider vouched for a token lately; that it still does is not said."""
        return await self._tokens.owner(digest)

    def _landed(self, credential: Credential, flight: asyncio.Task[Grant]) -> None:
        self._flying.pop(credential, None)
        if not flight.cancelled():
            flight.exception()  # seen, though everybody who waited may have gone

    async def _check(self, credential: Credential, token: str, address: str, now: float) -> Grant:
        until = time.monotonic() + self._pace.patience
        pause = self._pace.look
        while True:
            known = decided(credential.user, await self._tokens.standing(credential), now)
            if known is not None:
                return _outcome(known)
            async with self._tokens.asking(credential, self._pace.patience) as ours:
                if ours:
                    standing = await self._tokens.standing(credential)
                    known = decided(credential.user, standing, now)
                    if known is not None:
                        return _outcome(known)
                    return await self._ask(credential, standing, token, address, now)
            if time.monotonic() >= until:
                raise ProviderUnavailable("another check of this token takes too long", self._pace.again)
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.5)

    async def _ask(self, credential: Credential, standing: Standing, token: str, address: str, now: float) -> Grant:
        principal = standing.principal
        assert principal is not None  # `decided` has refused it
        if standing.vouched is None:
            wait = await self._tokens.count(credential.user, place_of(address), self._pace.shares, now)
            if wait:
                metrics.TOKEN_CHECKS.labels("limited").inc()
                raise TooManyRequests("too many unknown tokens were tried for this user: try again later", wait)
        said = await self._vouching.ask(principal, token, now)
        match said:
            case Good():
                granted = await self._remember(credential, principal, said, now)
                await self._tokens.know(credential.user, place_of(address), now)
                return granted
            case Denied():
                await self._tokens.refuse(credential, _INVALID, self._pace.refused)
                _count("invalid", credential.user)
                raise Unauthorized(said.why)
            case Another():
                await self._tokens.refuse(credential, _ANOTHER, self._pace.refused)
                _count("somebody_else", credential.user, me=mask_credentials(said.me))
                raise _another(credential.user)
            case Silent():
                return await self._without(credential, standing.vouched, said, now)

    async def _remember(self, credential: Credential, principal: Principal, said: Good, now: float) -> Grant:
        settings = self._settings()
        until = now + settings.token_cache
        if said.ends is not None:
            until = min(until, said.ends)
        vouched = Vouched(understood(said.scopes), said.client, now, said.ends)
        if not await self._tokens.remember(
            principal, credential.digest, vouched, until=until, grace=settings.token_grace
        ):
            raise Unauthorized("the user's profile has changed just now: sign in again")
        _count("valid", credential.user, client=mask_credentials(said.client), scope=" ".join(sorted(said.scopes)))
        return Grant(credential.user, vouched.scopes)

    async def _without(self, credential: Credential, vouched: Vouched | None, said: Silent, now: float) -> Grant:
        """The provider couldn't be asked."""
        until = None if vouched is None else grace_until(vouched, self._settings(), now, self._pace.while_known)
        if vouched is not None and until is not None and await self._tokens.prolong(credential, until):
            _count("grace", credential.user, why=said.detail or said.why)
            return Grant(credential.user, vouched.scopes)
        if said.lasting:
            await self._tokens.refuse(credential, _INVALID, self._pace.refused)
            _count("invalid", credential.user, why=said.detail or said.why)
            raise Unauthorized(f"the token is unknown here, and no provider can be asked about it: {said.why}")
        wait = max(self._pace.again, said.wait or 0)
        await self._tokens.note(credential, f"{_SILENT}{now + wait:.0f} {said.why}", wait)
        _count("unavailable", credential.user, why=said.detail or said.why)
        raise ProviderUnavailable(said.why, wait)


# --- decisions -----------------------------------------------------------------------------------------------------

_INVALID, _ANOTHER, _SILENT = "invalid", "another", "silent until "
_ENDED = "ended"
"""Written where a token of ours takes the place of another one (`token_create.lua`)."""


def place_of(address: str) -> TokenOrigin:
    """Where a token came from, by a client's address."""
    network = network_of(address)
    return TokenOrigin(network, wide_network_of(address) or network)


def decided(user: str, standing: Standing, now: float) -> Grant | MicrosubError | None:
    """What can be said of the token without asking anybody; None: the provider must be asked."""
    if standing.principal is None or not standing.principal.me:
        return Unauthorized("the token is unknown, expired or revoked")
    if standing.vouched is not None and now < standing.until:
        return Grant(user, standing.vouched.scopes)
    reason = standing.refused
    if reason is None:
        return None
    if reason == _ENDED:
        return Unauthorized("the token is unknown, expired or revoked")
    if reason == _ANOTHER:
        return _another(user)
    if reason.startswith(_SILENT):
        until, _, why = reason.removeprefix(_SILENT).partition(" ")
        return ProviderUnavailable(why, max(1, math.ceil(float(until) - now)))
    return Unauthorized("the user's provider says that the token is unknown, expired or revoked")


def grace_until(vouched: Vouched, settings: IdentitySettings, now: float, step: float) -> float | None:
    """Until when a token serves whose provider can't be asked at `now`; None when there is no grace left."""
    end = vouched.checked + settings.token_cache + settings.token_grace
    if vouched.ends is not None:
        end = min(end, vouched.ends)
    return min(now + step, end) if now < end else None


def _outcome(known: Grant | MicrosubError) -> Grant:
    if isinstance(known, Grant):
        return known
    metrics.TOKEN_CHECKS.labels("remembered").inc()
    raise known


def _another(user: str) -> Forbidden:
    return Forbidden(f"the token can't be used here: found one of another person, expected one of '{user}'")


def _count(outcome: str, user: str, **facts: str) -> None:
    metrics.TOKEN_CHECKS.labels(outcome).inc()
    log.info("token of a user's provider checked", user=user, outcome=outcome, **facts)
