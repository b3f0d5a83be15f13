"""Introspection (RFC 7662) of tokens at users' own providers, or the older GET with the token.

https://indieauth.spec.indieweb.org/#access-token-verification. The token goes to the provider that the user's profile
page names, or that the admin has named for the user, and to nobody else. What comes back is taken for what it is: the
word of that provider, about that user. Nothing is kept here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from microsub.errors import InvalidRequest, ParseError, ParserUnavailable, ProfileError, ProfileUnreachable
from microsub.fetch import Answered, FetchFailed, Sender, Sending
from microsub.identity.lifetimes import PROFILE_RECENT
from microsub.identity.protocol.identifiers import same_me
from microsub.identity.protocol.replies import TokenAnswer, read_check, read_introspection
from microsub.identity.sign_in.profiles import Profile
from microsub.identity.store.foreign import Principal

SECONDS = 10.0
"""What finding a provider and asking it may take, all in all; one exchange with it may take five (`fetch.SendLimits`).
"""
_LONGEST_WAIT = 300
_NOBODY = "the user's page names no provider that can be asked; the check of pages on this server says what is missing"
_TRY_OTHERWISE = frozenset({400, 401, 403, 404, 405, 501})
_NOT_CHECKED = frozenset({404, 405, 501})
_NO = frozenset({400, 401, 403})


@dataclass(frozen=True, slots=True)
class Good:
    """The token is the user's. `ends` is the provider's own time of expiry in Unix seconds, where it names one."""

    scopes: frozenset[str]
    client: str
    ends: float | None = None


@dataclass(frozen=True, slots=True)
class Denied:
    """The provider, asked or not, doesn't vouch for the token; `why` is a sentence for who asked."""

    why: str


@dataclass(frozen=True, slots=True)
class Another:
    """The token is good, and somebody else's."""

    me: str


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing was learnt of the token. `wait` is for how many seconds the provider wants to be left alone; `lasting`
    says that it isn't the day: there is nobody who could be asked.

    `why` is shown to who sent the token, which may be anybody, so it names no address: whose page is whose, and where
    their server is, isn't for strangers to learn. `detail` is for the log.
    """

    why: str
    wait: int | None = None
    lasting: bool = False
    detail: str = ""


Said = Good | Denied | Another | Silent


class ProfilesPort(Protocol):
    """What is needed of `identity.sign_in.profiles.Profiles`."""

    async def discover(self, me: str, *, max_age: float | None = None) -> Profile:
        """The profile at `me`."""
        ...


@dataclass(frozen=True, slots=True)
class _TokenEndpoints:
    """Where to ask: introspection, else the older check."""

    introspection: str | None
    check: str | None


class Introspection:
    """Asks users' providers. `own` is where this server itself is seen from outside: it isn't asked over the network,
    because it knows its own tokens. `private` is for instances that reach private networks.
    """

    def __init__(
        self,
        sender: Sender,
        profiles: ProfilesPort,
        *,
        own: str | None = None,
        private: bool = False,
    ) -> None:
        self._sender = sender
        self._profiles = profiles
        self._own = None if own is None else own.rstrip("/") + "/"
        self._private = private

    async def ask(self, who: Principal, token: str, now: float) -> Said:
        """What `who`'s provider says of the token. Never raises for what pages, providers or networks do."""
        try:
            async with asyncio.timeout(SECONDS):
                return await self._ask(who, token, now)
        except TimeoutError:
            return Silent(f"no answer after {SECONDS:g} s")
        except ProfileUnreachable as error:
            return Silent("the user's page, or what it names, can't be reached", detail=str(error))
        except ParserUnavailable as error:
            return Silent(str(error))
        except (ProfileError, InvalidRequest) as error:
            return Silent(_NOBODY, lasting=True, detail=str(error))

    async def _ask(self, who: Principal, token: str, now: float) -> Said:
        if not who.me:
            return Denied("nothing is known of a provider that issues tokens for this user")
        if who.token_endpoint is not None:
            return self._about(who, None, await self._said(_TokenEndpoints(None, who.token_endpoint), token, now))
        profile = await self._profiles.discover(who.me)
        said = await self._said(_places(profile), token, now)
        if isinstance(said, TokenAnswer) and said.active:
            return self._about(who, profile, said)
        # Somebody may have moved to another provider, whose token this is.
        try:
            newer = await self._profiles.discover(who.me, max_age=PROFILE_RECENT)
        except ProfileError:
            return self._about(who, profile, said)
        if _places(newer) != _places(profile):
            said = await self._said(_places(newer), token, now)
        return self._about(who, newer, said)

    def _about(self, who: Principal, profile: Profile | None, said: TokenAnswer | Silent) -> Said:
        """What the answer means for this user."""
        if isinstance(said, Silent):
            return said
        if not said.active or said.me is None:
            return Denied("the user's provider says that the token is unknown, expired or revoked")
        if not (_is_called(who.me, said.me) if profile is None else profile.is_known_as(said.me)):
            return Another(said.me)
        return Good(said.scopes, said.client or "", said.expires)

    async def _said(self, places: _TokenEndpoints, token: str, now: float) -> TokenAnswer | Silent:
        refused: TokenAnswer | None = None
        if places.introspection is not None:
            if self._is_own(places.introspection):
                return TokenAnswer(active=False)
            sending = Sending(places.introspection, method="POST", form={"token": token}, bearer=token)
            answer = await self._sender.send(sending)
            if isinstance(answer, FetchFailed):
                return Silent("the server can't be reached", detail=answer.detail)
            if answer.status == 200:
                return self._read(answer, now, is_introspection=True)
            if answer.status not in _TRY_OTHERWISE:
                return _silent(answer)
            if answer.status in _NO:
                # It may be the bearer that is refused, which is the token itself, or our way of asking.
                refused = TokenAnswer(active=False)
        if places.check is None:
            return refused or Silent("the user's page names nobody who checks tokens", lasting=True)
        return await self._checked(places.check, token, now, refused)

    async def _checked(self, url: str, token: str, now: float, refused: TokenAnswer | None) -> TokenAnswer | Silent:
        """The older check; `refused` is what introspection came to, for a provider that knows no older check."""
        if self._is_own(url):
            return TokenAnswer(active=False)
        answer = await self._sender.send(Sending(url, bearer=token, accept="application/json"))
        if isinstance(answer, FetchFailed):
            return Silent("the server can't be reached", detail=answer.detail)
        if answer.status == 200:
            return self._read(answer, now, is_introspection=False)
        if answer.status in _NO:
            return TokenAnswer(active=False)
        if answer.status in _NOT_CHECKED:
            return refused or Silent("the user's provider has no way to check tokens", lasting=True)
        return _silent(answer)

    def _read(self, answer: Answered, now: float, *, is_introspection: bool) -> TokenAnswer | Silent:
        url = answer.final_url
        try:
            if is_introspection:
                return read_introspection(answer.body, url, now=now, private=self._private)
            return read_check(answer.body, url, answer.content_type, now=now, private=self._private)
        except ParseError as error:
            return Silent("the answer can't be used", detail=error.detail)

    def _is_own(self, url: str) -> bool:
        return self._own is not None and url.startswith(self._own)


def _is_called(me: str, said: str) -> bool:
    """Whether a provider means `me` by `said`, without a look at the page: https proves more than http did."""
    return same_me(said, me) or (said.startswith("https:") and same_me(f"http:{said[6:]}", me))


def _places(profile: Profile) -> _TokenEndpoints:
    return _TokenEndpoints(profile.introspection_endpoint, profile.token_endpoint)


def _silent(answer: Answered) -> Silent:
    wait = answer.headers.get("retry-after", "")
    seconds = min(int(wait), _LONGEST_WAIT) if wait.isascii() and wait.isdigit() and len(wait) < 10 else None
    return Silent(f"the server answered {answer.status}", seconds)
