"""Discovery of the provider that a profile page names.

https://indieauth.spec.indieweb.org/#discovery-by-clients

A page proves its own content and nothing else. So a server is trusted only about people whose page names it. A redirect
identifies two addresses only if it is permanent and stays on the host; a redirect to another host is a claim, which
`admission` checks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from microsub.base.errors import InvalidRequest, ParseError, ProfileError, ProfileMismatch, ProfileUnreachable
from microsub.base.identifiers import canonical_me, endpoint, known_me, path_of_me, site_of_me
from microsub.base.ttl_cache import TtlCache
from microsub.base.urls import mask_credentials, parts_of
from microsub.fetch import PAGE_ACCEPT, Answered, FetchFailed, Hop, Sender, Sending, SendLimits
from microsub.formats.html.trees import MAX_PAGE
from microsub.identity.limits import PROFILE, PROFILE_FAILURE, PROFILE_RECENT
from microsub.identity.protocol.documents import ServerMetadata, is_own, metadata_behind, own_metadata
from microsub.identity.protocol.links import PROFILE_LINKS, SERVERS
from microsub.parsing.pool import ParsePool

MOST = 2000
AT_ONCE = 200
"""Pages fetched at the same time. Many, because anybody can request slow ones, and token checks wait behind them."""


PAGE = SendLimits(total=5.0, body=MAX_PAGE)
_DOCUMENT = SendLimits(total=5.0)
_PARSING = 10.0
"""Seconds to wait until a page has been read, including earlier pages in the queue."""

_NO_SERVER = (
    "found no IndieAuth server named there, expected a link with rel=indieauth-metadata, "
    "or with rel=authorization_endpoint and rel=token_endpoint, in the HTTP header Link or in the page's head"
)


@dataclass(frozen=True, slots=True)
class Profile:
    """The facts about a person from their page. `page` is its address.

    Its redirects give the `names`, all canonical, of which `me` is the last; and `moved_to`, the target of permanent
    ones to another host, which is a hint and not an identity. `me_links` are the page's `rel=me` links, profiles of the
    same person; `endpoints` are the addresses that it names, by relation. `metadata` is set if it names a server of the
    newer kind; then its older links are ignored.
    """

    me: str
    names: frozenset[str]
    moved_to: str | None = None
    me_links: tuple[str, ...] = ()
    endpoints: Mapping[str, str] = field(default_factory=dict)
    metadata: ServerMetadata | None = None
    page: str = ""

    @property
    def others(self) -> frozenset[str]:
        """The claimed addresses other than these names."""
        return frozenset({*self.me_links, self.moved_to or self.me}) - self.names

    @property
    def issuer(self) -> str | None:
        """The issuer, identical to `iss` (RFC 9207); None for older servers."""
        return self.metadata.issuer if self.metadata else None

    @property
    def authorization_endpoint(self) -> str | None:
        """The address at which the person signs in."""
        return self.metadata.authorization_endpoint if self.metadata else self.endpoints.get("authorization_endpoint")

    @property
    def token_endpoint(self) -> str | None:
        """The address that redeems codes for tokens; older servers also check tokens there."""
        return self.metadata.token_endpoint if self.metadata else self.endpoints.get("token_endpoint")

    @property
    def introspection_endpoint(self) -> str | None:
        """The address that checks tokens (RFC 7662)."""
        return self.metadata.introspection_endpoint if self.metadata else None

    def is_known_as(self, me: str) -> bool:
        """Whether this person's own server means this person by `me`.

        It does if that is one of the `names`, an address to which the page has moved or that it links with `rel=me`, or
        one of these with https. This is for the server's responses about tokens: by naming the server, the page allows
        it to mean those too. For sign-ins, use `Profiles.confirm`.
        """
        said = known_me(me)
        if said is None:
            return False
        known = {*self.names, *self.me_links, self.moved_to}
        # https proves more than http, but not the other way round.
        return said in known or (said.startswith("https:") and f"http:{said[6:]}" in known)

    def is_served_by(self, authorization: str, issuer: str | None = None) -> bool:
        """Whether the page names the server with that endpoint, and with that issuer if both have one.

        The endpoint is always compared: a host for many people may have one issuer for all their pages.
        """
        mine = self.authorization_endpoint
        if mine is None or endpoint(authorization) != mine:
            return False
        return issuer is None or self.issuer is None or issuer == self.issuer


class Profiles:
    """Finds the servers of people's profile pages. Responses are cached in the process.

    Belongs to one event loop. `private` is for servers that can reach private networks: URLs may have ports, IP
    addresses and plain http. `own` is our own address without a trailing slash: the facts about this server are known
    without a request.
    """

    def __init__(
        self,
        sender: Sender,
        parser: ParsePool,
        *,
        private: bool = False,
        own: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        self._parser = parser
        self._private = private
        self._own = own
        self._people: TtlCache[Profile] = TtlCache(
            lifetime=PROFILE, failures=PROFILE_FAILURE, most=MOST, at_once=AT_ONCE, clock=clock
        )
        self._servers: TtlCache[ServerMetadata] = TtlCache(
            lifetime=PROFILE, failures=PROFILE_FAILURE, most=MOST, at_once=AT_ONCE, clock=clock
        )

    async def discover(self, me: str, *, max_age: float | None = None) -> Profile:
        """The profile at `me`, fetched at most `max_age` seconds ago (None: an hour).

        Raises InvalidRequest if it isn't a profile URL, ProfileUnreachable if the page or the server's metadata can't
        be fetched now, ProfileError if they can't be used.
        """
        address = canonical_me(me, private=self._private)
        return await self._people.get(address, lambda: self._discover(address, max_age), max_age=max_age)

    async def claims(self, me: str) -> Profile:
        """The profile at `me`, fetched now, without the server's metadata: the page need not name a server.

        Raises InvalidRequest and ProfileError, including ProfileUnreachable, as `discover` does.
        """
        return await self._read(canonical_me(me, private=self._private))

    async def confirm(self, entered: str, returned: str, *, authorization: str, issuer: str | None = None) -> Profile:
        """The person who signed in, if they entered `entered` and the server returned `returned`.

        `authorization` and `issuer` are those of the server that was actually used, as stored when the person was sent
        there: by now `entered`'s page may have changed. `returned`'s page must always name the same server
        (https://indieauth.spec.indieweb.org/#differing-user-profile-urls).

        Only `returned` is proven, with the result's `names`: its other spellings (https, with or without `www.` and a
        trailing slash) to which its site redirects permanently. A page that redirects to another person's doesn't allow
        its owner to sign in as them. Nor does the result say that `entered` is the same person. Raises ProfileMismatch,
        and the errors of `discover`.
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
        """Fetch the page again next time, because it has changed. Raises InvalidRequest."""
        self._people.forget(canonical_me(me, private=self._private))

    async def _discover(self, me: str, max_age: float | None) -> Profile:
        profile = await self._read(me)
        if profile.endpoints.keys().isdisjoint(SERVERS):
            raise ProfileError(profile.page, _NO_SERVER)
        metadata = None
        url = profile.endpoints.get("indieauth-metadata")
        if url is not None and self._own is not None and is_own(url, self._own):
            metadata = own_metadata(self._own)
        elif url is not None:
            metadata = await self._servers.get(url, lambda: self._metadata(url), max_age=max_age)
        return replace(profile, metadata=metadata)

    async def _read(self, me: str) -> Profile:
        """The facts on the page at `me`. Raises ProfileError."""
        self._parser.warm()
        page = await self._ask(Sending(me, accept=PAGE_ACCEPT, limits=PAGE))
        shown = mask_credentials(page.final_url)
        try:
            async with asyncio.timeout(_PARSING):
                about = page.final_url, page.content_type, page.headers.get("link"), self._private
                endpoints, me_links = await self._parser.run(PROFILE_LINKS, page.final_url, page.body, *about)
        except TimeoutError:
            raise ProfileUnreachable(shown, f"found a page that wasn't read within {_PARSING:g} s") from None
        except ParseError as error:
            raise ProfileError(shown, f"found a page that can't be read: {error.detail}") from None
        me_links = () if _redirects_elsewhere(me, page.hops) else me_links
        trail = trail_of(me, page.hops, private=self._private)
        return replace(trail, me_links=me_links, endpoints=endpoints, page=page.final_url)

    async def _metadata(self, url: str) -> ServerMetadata:
        document = await self._ask(Sending(url, limits=_DOCUMENT))
        try:
            return metadata_behind(document.body, url, document.final_url, private=self._private)
        except ParseError as problem:
            raise ProfileError(url, problem.detail) from None

    async def _ask(self, sending: Sending) -> Answered:
        """The document at an address, after any redirects. Raises ProfileError."""
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


def trail_of(me: str, hops: Iterable[Hop], *, private: bool = False) -> Profile:
    """The identity according to the redirects of `me` (canonical).

    Permanent ones, up to the first other one, give names on the same host, and a hint on others. `www.` doesn't make
    another host.
    """
    names, moved = [me], None
    for hop in hops:
        if not hop.permanent:
            break
        try:
            there = canonical_me(hop.url, private=private)
        except InvalidRequest:
            break  # this can't be anybody's address
        if moved is None and site_of_me(there) == site_of_me(me):
            names.append(there)
        else:
            moved = there
    return Profile(names[-1], frozenset(names), moved)


def _redirects_elsewhere(me: str, hops: Sequence[Hop]) -> bool:
    """Whether a temporary redirect leads to another host, whose page doesn't prove anything about `me`."""
    hosts = [parts_of(url).hostname for url in (me, *(hop.url for hop in hops))]
    return any(not hop.permanent and a != b for hop, (a, b) in zip(hops, pairwise(hosts), strict=True))


def _as_confirmed(profile: Profile, returned: str) -> Profile:
    """`profile` with only those names that no other person on the same host could have.

    Many people may have pages on the same host and server. If redirects between paths counted, somebody who signs in as
    themselves could meanwhile redirect their page to another person's, and would be taken for that person.
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
