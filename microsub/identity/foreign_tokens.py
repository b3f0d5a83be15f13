"""Tokens of other providers: checked with the user's own provider, and cached.

A provider is asked by introspection (RFC 7662), or by the older GET with the token
(https://indieauth.spec.indieweb.org/#access-token-verification). The token is sent only to the provider that the user's
profile page names, or that the admin has set for the user. The response counts only as that provider's statement about
that user.

The provider is asked only if the store doesn't know the token as valid: its response is stored as a token record
(`accounts.foreign`) for `token_cache` seconds, then the provider is asked again, which shows revocations. If the
provider can't be asked, its last response remains valid for `token_grace` seconds more; after that the reply is 503,
because a 401 would sign users out.

Requests caused by strangers are limited: a refusal is cached, all processes together ask about a token only once at a
time, and the number of checks per minute for tokens that no provider has confirmed yet is limited. One part of this
limit is for networks with a recent valid token, and one for the first tokens from any network, so that a few addresses
with many invalid tokens don't block a new app of the user.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import structlog

from microsub.accounts import ForeignTokens, KnownToken, UnknownTokens, User, Vouched
from microsub.base import metrics
from microsub.base.errors import (
    Forbidden,
    InvalidRequest,
    MicrosubError,
    ParseError,
    ParserUnavailable,
    ProfileError,
    ProfileUnreachable,
    ProviderUnavailable,
    TooManyRequests,
    Unauthorized,
)
from microsub.base.identifiers import same_me
from microsub.base.rate_limits import network_of, wide_network_of
from microsub.base.urls import mask_credentials
from microsub.configuration.model import IdentitySettings
from microsub.fetch import Answered, FetchFailed, RequestFailure, Sender, Sending, retry_after
from microsub.identity.limits import PROFILE_RECENT, REFUSED_TOKEN
from microsub.identity.profiles import Profile, Profiles
from microsub.identity.protocol.documents import TokenAnswer, read_check, read_introspection
from microsub.model.reader import Credential, Grant, understood

SECONDS = 10.0
"""The total time for finding a provider and asking it; one exchange may take five seconds (`fetch.SendLimits`)."""
_AGAIN, _WHILE_KNOWN = 10, 30.0
"""Seconds until an unreachable provider is asked again about a token; the second if an earlier response is valid."""
_LOOK = 0.05
"""Seconds until the first look whether another process's check of the same token has ended."""
_LONGEST_WAIT = 300
_NOBODY = "the user's page names no provider that can be asked; 'microsub doctor' or /check says what is missing"
_REFUSED = "neither this server nor the user's provider accepts the token: it is unknown, expired or revoked"
_TRY_OTHERWISE = frozenset({400, 401, 403, 404, 405, 501})
_NOT_CHECKED = frozenset({404, 405, 501})
_NO = frozenset({400, 401, 403})


class Denied(NamedTuple):
    """The provider doesn't confirm the token, or wasn't asked; `why` is a sentence for the app.

    With `me`, the token is valid, but belongs to that other user.
    """

    why: str = ""
    me: str = ""


TokenVerdict = Vouched | Denied | RequestFailure
"""A failed check's reason goes to the sender of the token, who may be anybody, so it has no address of a user's page or
server: strangers must not learn them.
"""


_Endpoints = tuple[str | None, str | None]
"""The address for checking tokens: introspection, otherwise the older check."""


class Introspection:
    """Asks users' providers.

    `own` is this server's public address: it isn't asked over the network, because it knows its own tokens. `private`
    is for servers that can reach private networks.
    """

    def __init__(self, sender: Sender, profiles: Profiles, *, own: str | None = None, private: bool = False) -> None:
        self._sender = sender
        self._profiles = profiles
        self._own = None if own is None else own.rstrip("/") + "/"
        self._private = private

    async def ask(self, who: User, token: str, now: float) -> TokenVerdict:
        """The verdict of `who`'s provider on the token; failing pages and networks raise nothing."""
        try:
            async with asyncio.timeout(SECONDS):
                return await self._ask(who, token, now)
        except TimeoutError:
            return RequestFailure(f"no answer after {SECONDS:g} s")
        except ProfileUnreachable as error:
            return RequestFailure("the user's page, or what it names, can't be reached", detail=str(error))
        except ParserUnavailable as error:
            return RequestFailure(str(error))
        except (ProfileError, InvalidRequest) as error:
            return RequestFailure(_NOBODY, lasting=True, detail=str(error))

    async def _ask(self, who: User, token: str, now: float) -> TokenVerdict:
        if not who.me:
            return Denied("this user has no 'me', so no provider can be asked")
        if who.token_endpoint is not None:
            return self._about(who, None, await self._answer_of((None, who.token_endpoint), token, now), now)
        profile = await self._profiles.discover(who.me)
        said = await self._answer_of(_endpoints(profile), token, now)
        if isinstance(said, TokenAnswer) and said.active:
            return self._about(who, profile, said, now)
        # The user may have changed to another provider, which issued this token.
        try:
            newer = await self._profiles.discover(who.me, max_age=PROFILE_RECENT)
        except ProfileError:
            return self._about(who, profile, said, now)
        if _endpoints(newer) != _endpoints(profile):
            said = await self._answer_of(_endpoints(newer), token, now)
        return self._about(who, newer, said, now)

    def _about(
        self, who: User, profile: Profile | None, said: TokenAnswer | RequestFailure, now: float
    ) -> TokenVerdict:
        """The meaning of the provider's response for this user."""
        if isinstance(said, RequestFailure):
            return said
        if not said.active or said.me is None:
            return Denied(_REFUSED)
        if not (_is_called(who.me, said.me) if profile is None else profile.is_known_as(said.me)):
            return Denied(me=said.me)
        return Vouched(understood(said.scopes), said.client or "", now, said.expires)

    async def _answer_of(self, endpoints: _Endpoints, token: str, now: float) -> TokenAnswer | RequestFailure:
        introspection, check = endpoints
        refused: TokenAnswer | None = None
        if introspection is not None:
            if self._is_own(introspection):
                return TokenAnswer(active=False)
            sending = Sending(introspection, method="POST", form={"token": token}, bearer=token)
            answer = await self._sender.send(sending)
            if isinstance(answer, FetchFailed):
                return RequestFailure("the server can't be reached", detail=answer.detail)
            if answer.status == 200:
                return self._read(answer, now, is_introspection=True)
            if answer.status not in _TRY_OTHERWISE:
                return _no_answer(answer)
            if answer.status in _NO:
                # The refused bearer may be the token itself, or our authentication.
                refused = TokenAnswer(active=False)
        if check is None:
            return refused or RequestFailure("the user's page names no server that checks tokens", lasting=True)
        return await self._checked(check, token, now, refused)

    async def _checked(
        self, url: str, token: str, now: float, refused: TokenAnswer | None
    ) -> TokenAnswer | RequestFailure:
        """The older check; `refused` is the result of introspection, returned if there is no older check."""
        if self._is_own(url):
            return TokenAnswer(active=False)
        answer = await self._sender.send(Sending(url, bearer=token, accept="application/json"))
        if isinstance(answer, FetchFailed):
            return RequestFailure("the server can't be reached", detail=answer.detail)
        if answer.status == 200:
            return self._read(answer, now, is_introspection=False)
        if answer.status in _NO:
            return TokenAnswer(active=False)
        if answer.status in _NOT_CHECKED:
            return refused or RequestFailure("the user's provider has no way to check tokens", lasting=True)
        return _no_answer(answer)

    def _read(self, answer: Answered, now: float, *, is_introspection: bool) -> TokenAnswer | RequestFailure:
        url = answer.final_url
        try:
            if is_introspection:
                return read_introspection(answer.body, url, now=now, private=self._private)
            return read_check(answer.body, url, answer.content_type, now=now, private=self._private)
        except ParseError as error:
            return RequestFailure("the answer can't be used", detail=error.detail)

    def _is_own(self, url: str) -> bool:
        return self._own is not None and url.startswith(self._own)


def _is_called(me: str, said: str) -> bool:
    """Whether a provider's `said` means `me`, compared as text: https proves more than http."""
    return same_me(said, me) or (said.startswith("https:") and same_me(f"http:{said[6:]}", me))


def _endpoints(profile: Profile) -> _Endpoints:
    return profile.introspection_endpoint, profile.token_endpoint


def _no_answer(answer: Answered) -> RequestFailure:
    wait = retry_after(answer.headers.get("retry-after"), time.time())
    seconds = None if wait is None else min(wait, _LONGEST_WAIT)
    return RequestFailure(f"the server answered {answer.status}", retry_after=seconds)


log = structlog.get_logger(__name__)


class ForeignTokenCheck:
    """Checks tokens with users' providers. `settings` returns the active settings.

    `patience` is how many seconds it waits for another process's check of the same token.
    """

    def __init__(
        self,
        tokens: ForeignTokens,
        vouching: Introspection,
        settings: Callable[[], Awaitable[IdentitySettings]],
        patience: float = SECONDS + 2,
    ) -> None:
        self.tokens = tokens
        self._vouching = vouching
        self._settings = settings
        self._patience = patience
        self._running: dict[Credential, asyncio.Task[Grant]] = {}

    async def check(self, credential: Credential, token: str, address: str, now: float) -> Grant:
        """The access of `token` for the user in `credential`; `address` is the client's.

        Afterwards the store knows the token as valid, so every script finds it. Raises Unauthorized for a token that
        the user's provider doesn't confirm, Forbidden for another user's, ProviderUnavailable if it can't be asked, and
        TooManyRequests.
        """
        running = self._running.get(credential)
        if running is None:
            running = asyncio.create_task(self._check(credential, token, address, now), name="token check")
            self._running[credential] = running
            running.add_done_callback(lambda done: self._ended(credential, done))
        # A cancelled caller doesn't cancel the check for others.
        return await asyncio.shield(running)

    def _ended(self, credential: Credential, running: asyncio.Task[Grant]) -> None:
        self._running.pop(credential, None)
        if not running.cancelled():
            running.exception()  # retrieve it, even if all waiting callers are gone

    async def _check(self, credential: Credential, token: str, address: str, now: float) -> Grant:
        until = time.monotonic() + self._patience
        pause = _LOOK
        while True:
            known = decided(credential.user, await self.tokens.known_token(credential), now)
            if known is not None:
                return _outcome(known)
            async with self.tokens.asking(credential, self._patience) as ours:
                if ours:
                    known_token = await self.tokens.known_token(credential)
                    known = decided(credential.user, known_token, now)
                    if known is not None:
                        return _outcome(known)
                    return await self._ask(credential, known_token, token, address, now)
            if time.monotonic() >= until:
                raise ProviderUnavailable("another check of this token takes too long", _AGAIN)
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.5)

    async def _ask(
        self, credential: Credential, known_token: KnownToken, token: str, address: str, now: float
    ) -> Grant:
        who = known_token.user
        assert who is not None  # `decided` has refused it
        network = network_of(address)
        if known_token.vouched is None:
            wide = wide_network_of(address) or network
            wait = await self.tokens.count(credential.user, network, wide, UnknownTokens(), now)
            if wait:
                metrics.TOKEN_CHECKS.labels("limited").inc()
                raise TooManyRequests("too many unknown tokens were tried for this user: try again later", wait)
        said = await self._vouching.ask(who, token, now)
        match said:
            case Vouched():
                granted = await self._remember(credential, who, said)
                await self.tokens.know(credential.user, network, now)
                return granted
            case Denied(me=""):
                await self.tokens.refuse(credential, _INVALID, REFUSED_TOKEN)
                _count("invalid", credential.user)
                raise Unauthorized(said.why)
            case Denied():
                await self.tokens.refuse(credential, _ANOTHER, REFUSED_TOKEN)
                _count("somebody_else", credential.user, me=mask_credentials(said.me))
                raise _another(credential.user)
            case RequestFailure():
                return await self._without(credential, known_token.vouched, said, now)

    async def _remember(self, credential: Credential, who: User, said: Vouched) -> Grant:
        settings = await self._settings()
        until = said.checked + settings.token_cache
        if said.ends is not None:
            until = min(until, said.ends)
        kept = await self.tokens.remember(who, credential.digest, said, until=until, grace=settings.token_grace)
        if not kept:
            raise Unauthorized("the user's profile has just changed: sign in again")
        _count("valid", credential.user, client=mask_credentials(said.client), scope=" ".join(sorted(said.scopes)))
        return Grant(credential.user, said.scopes)

    async def _without(
        self, credential: Credential, vouched: Vouched | None, said: RequestFailure, now: float
    ) -> Grant:
        """Handle a provider that couldn't be asked."""
        settings = await self._settings()
        until = None if vouched is None else grace_until(vouched, settings, now, _WHILE_KNOWN)
        if vouched is not None and until is not None and await self.tokens.prolong(credential, until):
            _count("grace", credential.user, why=said.detail or said.why)
            return Grant(credential.user, vouched.scopes)
        if said.lasting:
            await self.tokens.refuse(credential, _INVALID, REFUSED_TOKEN)
            _count("invalid", credential.user, why=said.detail or said.why)
            raise Unauthorized(f"the token is unknown here, and no provider can be asked about it: {said.why}")
        wait = max(_AGAIN, int(said.retry_after or 0))
        await self.tokens.note(credential, f"{_SILENT}{now + wait:.0f} {said.why}", wait)
        _count("unavailable", credential.user, why=said.detail or said.why)
        raise ProviderUnavailable(said.why, wait)


# --- decisions -----------------------------------------------------------------------------------------------------

_INVALID, _ANOTHER, _SILENT = "invalid", "another", "silent until "
_ENDED = "ended"
"""Stored if a token of ours replaces another one (`token_create.lua`)."""


def decided(user: str, known_token: KnownToken, now: float) -> Grant | MicrosubError | None:
    """The cached verdict on the token; None: the provider must be asked."""
    if known_token.user is None or not known_token.user.me:
        return Unauthorized("the token is unknown, expired or revoked")
    if known_token.vouched is not None and now < known_token.until:
        return Grant(user, known_token.vouched.scopes)
    reason = known_token.refused
    if reason is None:
        return None
    if reason == _ENDED:
        return Unauthorized("the token is unknown, expired or revoked")
    if reason == _ANOTHER:
        return _another(user)
    if reason.startswith(_SILENT):
        until, _, why = reason.removeprefix(_SILENT).partition(" ")
        return ProviderUnavailable(why, max(1, math.ceil(float(until) - now)))
    return Unauthorized(_REFUSED)


def grace_until(vouched: Vouched, settings: IdentitySettings, now: float, step: float) -> float | None:
    """The time until which a token is valid whose provider can't be asked at `now`; None if the grace has ended."""
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
