"""Discovery: which provider a profile page names.

https://indieauth.spec.indieweb.org/#discovery-by-clients

A page proves what stands on it and nothing else. So a server is believed in what it says of people whose page names it.
A redirect makes two addresses one person's only as far as it is permanent and stays on its host; what leads to other
hosts is a claim, for `admission` to weigh.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from microsub.errors import InvalidRequest, ParseError, ProfileError, ProfileMismatch, ProfileUnreachable
from microsub.fetch import PAGE_ACCEPT, Answered, FetchFailed, Hop, Sender, Sending, SendLimits
from microsub.formats.html.trees import MAX_PAGE
from microsub.identity.limits import PROFILE, PROFILE_FAILURE, PROFILE_RECENT
from microsub.identity.protocol.documents import ServerMetadata, is_own, metadata_behind, own_metadata
from microsub.identity.protocol.links import Endpoints, canonical_me, endpoint, known_me, path_of_me, site_of_me
from microsub.kit.ttl_cache import TtlCache
from microsub.kit.urls import mask_credentials, parts_of
from microsub.parsing.pool import ParsePool

MOST = 2000
AT_ONCE = 200
"""Pages asked together. Many, because anybody may have slow ones asked, and tokens wait behind them to be checked."""


_PAGE = SendLimits(total=5.0, body=MAX_PAGE)
_DOCUMENT = SendLimits(total=5.0)
_PARSING = 10.0
"""Seconds to wait for a page to be read, others before it included."""

_NO_SERVER = (
    "found no IndieAuth server named there, expected a link with rel=indieauth-metadata, "
    "or with rel=authorization_endpoint and rel=token_endpoint, in the HTTP header Link or in the page's head"
)


@dataclass(frozen=True, slots=True)
class RedirectTrail:
    """The identity according to redirects. `me` is the last of the `names`.

    `moved_to` is where permanent redirects lead on another host, which is a hint and no identity; `names` are all
    canonical.
    """

    me: str
    names: frozenset[str]
    moved_to: str | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """The addresses of a page's owner, from redirects and from `rel=me`."""

    trail: RedirectTrail
    me_links: tuple[str, ...]

    @property
    def others(self) -> frozenset[str]:
        """The addresses, of other names, at which its owner says to be the same person."""
        return frozenset({*self.me_links, self.trail.moved_to or self.trail.me}) - self.trail.names


@dataclass(frozen=True, slots=True)
class Profile:
    """The facts about a person from their page. `page` is its address.

    `me`, `names` and `moved_to` are as in `RedirectTrail`. `me_links` are the profiles that the page calls the same
    person's (`rel=me`). `metadata` is there where the page names a server of the newer kind; the older links of such a
    page don't count.
    """

    me: str
    names: frozenset[str]
    endpoints: Endpoints
    metadata: ServerMetadata | None
    page: str
    moved_to: str | None = None
    me_links: tuple[str, ...] = ()

    @property
    def issuer(self) -> str | None:
        """The issuer, identical to `iss` (RFC 9207); None for older servers."""
        return self.metadata.issuer if self.metadata else None

    @property
    def authorization_endpoint(self) -> str | None:
        """The address at which the person signs in."""
        return self.metadata.authorization_endpoint if self.metadata else self.endpoints.authorization

    @property
    def token_endpoint(self) -> str | None:
        """The address that redeems codes for tokens; on older servers it also checks tokens."""
        return self.metadata.token_endpoint if self.metadata else self.endpoints.token

    @property
    def introspection_endpoint(self) -> str | None:
        """The address that checks tokens (RFC 7662)."""
        return self.metadata.introspection_endpoint if self.metadata else None

    def is_known_as(self, me: str) -> bool:
        """Whether this person's own server means this person by `me`.

        That is one of the `names`, or of the addresses to which the page has moved or which it calls the same
        person's, or such a one by https. For what that server answers about tokens: the page that names the server
        says that it may mean those too. Who signs in is found out by `Profiles.confirm`.
        """
        said = known_me(me)
        if said is None:
            return False
        known = {*self.names, *self.me_links, self.moved_to}
        # https proves more than http did; the other way round it would prove less.
        return said in known or (said.startswith("https:") and f"http:{said[6:]}" in known)

    def is_served_by(self, authorization: str, issuer: str | None = None) -> bool:
        """Whether the page names the server by that endpoint, and issuer where both have one.

        The endpoint is compared in any case: a host of many people may have one issuer above the pages of all.
        """
        mine = self.authorization_endpoint
        if mine is None or endpoint(authorization) != mine:
            return False
        return issuer is None or self.issuer is None or issuer == self.issuer


class Profiles:
    """Finds out which server speaks for whom. Answers are kept in the process.

    Belongs to one event loop. `private` is for instances that reach private networks: ports, IP addresses and plain
    http may stand in URLs. `own` is our own address without a slash at its end: what is said of the server there is
    known without asking.
    """

    def __init__(
        self,
        sender: Sender,
        parser: ParsePool,
        *,
        private: bool = False,
        own: str | None = None,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        self._parser = parser
        self._private = private
        self._own = own
        self._people: TtlCache[Profile] = TtlCache(
            lifetime=PROFILE, failures=PROFILE_FAILURE, most=most, at_once=AT_ONCE, clock=clock
        )
        self._servers: TtlCache[ServerMetadata] = TtlCache(
            lifetime=PROFILE, failures=PROFILE_FAILURE, most=most, at_once=AT_ONCE, clock=clock
        )

    async def discover(self, me: str, *, max_age: float | None = None) -> Profile:
        """The profile at `me`, found at most `max_age` seconds ago (None: an hour).

        Raises InvalidRequest for what is no profile URL, ProfileUnreachable where the page or the server's metadata
        can't be had now, ProfileError where they can't be used.
        """
        address = canonical_me(me, private=self._private)
        return await self._people.get(address, lambda: self._discover(address, max_age), max_age=max_age)

    async def claims(self, me: str) -> Claims:
        """The addresses of the owner of the page at `me`, fetched now.

        It need not name a server. Raises InvalidRequest and ProfileError, ProfileUnreachable among them, as `discover`
        does.
        """
        _, claims, _ = await self._read(canonical_me(me, private=self._private))
        return claims

    async def confirm(self, entered: str, returned: str, *, authorization: str, issuer: str | None = None) -> Profile:
        """The person who signed in, if they entered `entered` and the server returned `returned`.

        `authorization` and `issuer` are those of the server that was in fact used, as they were kept when the person
        was sent there: `entered`'s page may say something else by now. That `returned`'s page names the same server is
        asked for in every case (https://indieauth.spec.indieweb.org/#differing-user-profile-urls).

        Who signed in is `returned` alone, under the result's `names`: other spellings of it (by https, with or without
        `www.` and a slash at the end) to which its site redirects for good. Somebody whose page leads to another's
        can't sign in as that. Nor is it said that `entered` is the same person. Raises ProfileMismatch, and what
        `discover` raises.
        """
        profile = await self.discover(returned, max_age=PROFILE_RECENT)
        if not profile.is_served_by(authorization, issuer):
            raise ProfileMismatch(
                profile.me,
                f"found the authorization endpoint {profile.authorization_endpoint or 'of nobody'} named there, "
                f"expected {mask_credentials(authorization)}, with which {mask_credentials(entered)} signed in",
            )
        return _as_confirmed(profile, canonical_me(returned, private=self._private))

    def forget(self, me: str) -> None:
        """Fetch the page again next time, since it has changed. Raises InvalidRequest."""
        self._people.forget(canonical_me(me, private=self._private))

    async def _discover(self, me: str, max_age: float | None) -> Profile:
        endpoints, claims, page = await self._read(me)
        if not endpoints.names_server:
            raise ProfileError(page, _NO_SERVER)
        metadata = None
        if (url := endpoints.metadata) is not None and self._own is not None and is_own(url, self._own):
            metadata = own_metadata(self._own)
        elif url is not None:
            metadata = await self._servers.get(url, lambda: self._metadata(url), max_age=max_age)
        trail = claims.trail
        return Profile(trail.me, trail.names, endpoints, metadata, page, trail.moved_to, claims.me_links)

    async def _read(self, me: str) -> tuple[Endpoints, Claims, str]:
        """The links and facts of the page at `me`, and its address. Raises ProfileError."""
        self._parser.warm()
        page = await self._ask(Sending(me, accept=PAGE_ACCEPT, limits=_PAGE))
        shown = mask_credentials(page.final_url)
        try:
            async with asyncio.timeout(_PARSING):
                links = await self._parser.profile_links(page, private=self._private)
        except TimeoutError:
            raise ProfileUnreachable(shown, f"found a page that wasn't read within {_PARSING:g} s") from None
        except ParseError as error:
            raise ProfileError(shown, f"found a page that can't be read: {error.detail}") from None
        trail = trail_of(me, page.hops, private=self._private)
        return links.endpoints, Claims(trail, () if _is_lent(me, page.hops) else links.me), page.final_url

    async def _metadata(self, url: str) -> ServerMetadata:
        document = await self._ask(Sending(url, limits=_DOCUMENT))
        try:
            return metadata_behind(document.body, url, document.final_url, private=self._private)
        except ParseError as problem:
            raise ProfileError(url, problem.detail) from None

    async def _ask(self, sending: Sending) -> Answered:
        """The document at an address, behind whatever redirects. Raises ProfileError."""
        shown = mask_credentials(sending.url)
        answer = await self._sender.send(sending)
        if isinstance(answer, FetchFailed):
            kind = ProfileError if answer.lasting else ProfileUnreachable
            raise kind(shown, f"found nothing usable: {answer.detail}; expected a document")
        if answer.status >= 500 or answer.status in {408, 425, 429}:
            raise ProfileUnreachable(shown, f"found status {answer.status}, expected 200")
        if not 200 <= answer.status < 300:
            raise ProfileError(shown, f"found status {answer.status}, expected 200")
        if not self._private and _leaves_https([sending.url, *(hop.url for hop in answer.hops)]):
            raise ProfileError(shown, "found a redirect from https to http, expected https from there on")
        return answer


def trail_of(me: str, hops: Iterable[Hop], *, private: bool = False) -> RedirectTrail:
    """The identity according to the redirects of `me` (canonical).

    Permanent ones, up to the first that isn't, give names on the same host, and a hint on others. `www.` makes no other
    host.
    """
    names, moved = [me], None
    for hop in hops:
        if not hop.permanent:
            break
        try:
            there = canonical_me(hop.url, private=private)
        except InvalidRequest:
            break  # nobody can be called that
        if moved is None and site_of_me(there) == site_of_me(me):
            names.append(there)
        else:
            moved = there
    return RedirectTrail(names[-1], frozenset(names), moved)


def _is_lent(me: str, hops: Sequence[Hop]) -> bool:
    """Whether a temporary redirect leads to another host, whose page says nothing of `me`."""
    hosts = [parts_of(url).hostname for url in (me, *(hop.url for hop in hops))]
    return any(not hop.permanent and a != b for hop, (a, b) in zip(hops, pairwise(hosts), strict=True))


def _as_confirmed(profile: Profile, returned: str) -> Profile:
    """`profile` under such names alone as differ in nothing that a neighbour could own.

    Many people may have pages on one host and one server. If a redirect from one path to another counted, who signs
    in there as themselves could redirect their page, meanwhile, to somebody else's, and would be taken for them.
    """
    path = path_of_me(returned).removesuffix("/")
    names = frozenset(name for name in profile.names if path_of_me(name).removesuffix("/") == path)
    by_https = sorted(name for name in names if name.startswith("https:"))
    me = profile.me if profile.me in names else returned
    if by_https and not me.startswith("https:"):
        me = by_https[0]
    return replace(profile, me=me, names=names)


def _leaves_https(addresses: Sequence[str]) -> bool:
    return any(one.startswith("https:") and other.startswith("http:") for one, other in pairwise(addresses))
