"""The check of a profile page: problems for signing in and reading.

The page is requested in the same ways as by reader apps. The person who starts a check chooses the page and everything
that it names, so all requests go through the guarded fetcher, with a time limit, a few at once, and rarely to the same
site. Only plain requests without secrets are sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from microsub.base.clock import MINUTE
from microsub.base.errors import ParseError, TooManyRequests
from microsub.base.identifiers import canonical_me, site_of_me
from microsub.base.rate_limits import RateLimiter
from microsub.base.texts import N_, Sentence
from microsub.base.urls import mask_credentials, parts_of
from microsub.fetch import FEED_ACCEPT, PAGE_ACCEPT, Answered, FetchFailed, Sender, Sending, SendLimits
from microsub.identity.limits import PAGE_CHECKS_IN_ALL, PAGE_CHECKS_OF_NETWORK, PAGE_CHECKS_OF_SITE
from microsub.identity.page_check import findings
from microsub.identity.page_check.findings import RELS, CheckedAgainst, PageFinding, PageReport, say
from microsub.identity.profiles import PAGE, trail_of
from microsub.identity.protocol.documents import (
    LinkLine,
    ServerMetadata,
    is_own,
    metadata_behind,
    microsub_line,
    profile_page,
)
from microsub.identity.protocol.links import EXAMINED, usable
from microsub.parsing.pool import ParsePool

SECONDS = 20.0
"""For all requests together; each exchange has five seconds."""

_FEED = SendLimits(total=5.0, body=1024 * 1024)

_Metadata = ServerMetadata | str | None
"""The provider's metadata, or why it can't be used; None if the page names no provider that is asked."""


class PageDoctor:
    """Examines pages. Belongs to one event loop. `private`: it may reach private networks.

    `asks_itself`: endpoints of this server are requested over HTTP too, as on the command line; a running server
    doesn't need this. `web_ports`: only ports 80 and 443 are requested, except in networks that the admin lists.
    """

    def __init__(
        self,
        sender: Sender,
        parser: ParsePool,
        *,
        private: bool = False,
        asks_itself: bool = False,
        web_ports: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        self._parser = parser
        self._private = private
        self._asks_itself = asks_itself
        self._web_ports = web_ports
        self._limiter = RateLimiter(clock)

    async def examine_for(self, client: str, address: str, here: CheckedAgainst, *, known: bool = False) -> PageReport:
        """`examine` for a visitor in the network `client`, with a rate limit.

        Only actual checks count. Unless they are `known`, only ports 80 and 443 are requested, because a finding shows
        whether a port is open. Raises TooManyRequests, InvalidRequest.
        """
        limiter, wait = self._limiter, int(MINUTE)
        site = site_of_me(canonical_me(address, private=self._private))
        if not limiter.has_room(PAGE_CHECKS_OF_NETWORK, client):
            most = PAGE_CHECKS_OF_NETWORK.most
            raise TooManyRequests(
                Sentence("your network can check {most} pages a minute; wait a minute", most=most), wait
            )
        if not limiter.has_room(PAGE_CHECKS_OF_SITE, site):
            raise TooManyRequests(Sentence("{site} has been checked too often; wait a minute", site=site), wait)
        full = TooManyRequests(N_("too many pages are being checked right now; try again in a few seconds"), 5)
        with limiter.holding((PAGE_CHECKS_IN_ALL, ""), refusal=full):
            limiter.count(PAGE_CHECKS_OF_NETWORK, client)
            limiter.count(PAGE_CHECKS_OF_SITE, site)
            careful = PageDoctor(self._sender, self._parser, private=self._private, web_ports=True)
            return await (self if known else careful).examine(address, here)

    async def examine(self, address: str, here: CheckedAgainst) -> PageReport:
        """The findings at `address`; failures of pages, servers and networks are findings.

        Raises InvalidRequest if it can't be a profile URL.
        """
        me = canonical_me(address, private=self._private)
        found: list[PageFinding] = []  # as many as the time allows
        try:
            async with asyncio.timeout(SECONDS):
                await self._examine(me, here, found)
        except TimeoutError:
            found.append(say("time", seconds=SECONDS))
        return PageReport(me, tuple(dict.fromkeys(found)))

    async def _examine(self, me: str, here: CheckedAgainst, found: list[PageFinding]) -> None:
        got, head, other = await asyncio.gather(
            self._ask(me, limits=PAGE, accept=PAGE_ACCEPT),
            self._ask(me, head=True, accept=PAGE_ACCEPT),
            self._other_scheme(me),
        )
        if isinstance(got, FetchFailed):
            found.append(say("page-tls" if got.reason == "tls" else "page-unreachable", detail=got.detail))
            return
        if not 200 <= got.status < 300:
            found.append(say("page-status", url=got.final_url, status=got.status))
            return
        try:
            about = got.final_url, got.content_type, got.headers.get("link")
            page = await self._parser.run(EXAMINED, got.final_url, got.body, *about)
        except ParseError as error:
            found.append(say("page-unreadable", detail=error.detail))
            return
        trail, base = trail_of(me, got.hops, private=self._private), here.base
        found.append(findings.page_finding(got, is_html=page.is_html))
        found += findings.address_findings(me, got.hops, trail, private=self._private)
        found += findings.scheme_findings(me, other)
        found.append(findings.head_finding(got, head))
        found += findings.caching_findings(got)
        named = usable(page.links, RELS)
        if "microsub" in named:
            own = any(is_own(named.get(rel), base) for rel in RELS[1:3]) if base else False
            found += findings.endpoint_findings(named["microsub"], here, trail, own_provider=own)
            if "?" in named["microsub"]:
                found.append(say("endpoint-with-query", url=named["microsub"]))
        user = findings.user_of(trail, here)
        for rel in RELS:
            ours = microsub_line(base, user or "YOUR-NAME") if base is not None and rel == "microsub" else None
            found += findings.link_findings(rel, page.links, got, ours)
        written = {rel for link in page.links for rel in link.rels if rel in RELS}
        misplaced = frozenset((page.in_body & {*RELS}) - written)
        # A link in the wrong place is one problem; it isn't reported as missing too.
        is_hosted = base is not None and got.final_url.startswith(profile_page(base, ""))
        found += findings.misplaced_findings(misplaced)
        found += findings.missing_findings(misplaced | written, base, user, is_hosted=is_hosted)
        found += findings.webmention_findings(page, base, user)
        # A page provided by this server can't have a feed.
        feeds = None if is_hosted else page.feeds
        found += await self._servers(named, base, None if feeds is None else (feeds, got.final_url))

    async def _servers(
        self, on_page: Mapping[str, str], base: str | None, feeds: tuple[tuple[str, ...], str] | None
    ) -> list[PageFinding]:
        """Check the servers that the page names, except mistyped ones; `feeds` includes the page's address."""
        wrong = findings.mistyped_here(on_page, base)
        named = {rel: url for rel, url in on_page.items() if rel not in wrong}
        provider, feed = await asyncio.gather(self._metadata(named.get("indieauth-metadata"), base), self._feed(feeds))
        asked = [one for one in _endpoints(provider, named) if not self._is_known(one[1], base)]
        answers = await asyncio.gather(*(self._ask(url, accept="application/json, */*;q=0.1") for _, url in asked))
        found: list[PageFinding] = []
        working = dict(named)
        for (rel, url), answer in zip(asked, answers, strict=True):
            meant = _meant(rel, url, provider) if on_page.get(rel) == url else None
            said = list(findings.answering_findings(rel, url, answer, private=self._private, meant=meant))
            found += said
            if url == named.get(rel) and said[0].level == "problem":
                working.pop(rel, None)
        metadata_url = named.get("indieauth-metadata", "")
        about: list[PageFinding] = []
        if isinstance(provider, str):
            about.append(say("metadata-unusable", url=metadata_url, detail=provider))
        elif provider is not None:
            about += findings.metadata_findings(provider, metadata_url, working)
        ours = findings.own_provider_findings(on_page, base) if base is not None else ()
        return [*about, *found, *ours, *feed]

    async def _metadata(self, url: str | None, base: str | None) -> _Metadata:
        if url is None or self._is_known(url, base):
            return None
        answer = await self._ask(url, accept="application/json")
        if isinstance(answer, FetchFailed):
            return answer.detail
        if not 200 <= answer.status < 300:
            return f"status {answer.status}, expected 200"
        try:
            return metadata_behind(answer.body, url, answer.final_url, private=self._private)
        except ParseError as error:
            return error.detail

    async def _feed(self, feeds: tuple[tuple[str, ...], str] | None) -> list[PageFinding]:
        if feeds is None:
            return []
        named, page = feeds
        first = None
        if named and named[0] != page:
            first = await self._ask(named[0], accept=FEED_ACCEPT, limits=_FEED)
        return [findings.feed_finding(named, first)]

    async def _other_scheme(self, me: str) -> Answered | FetchFailed | None:
        """HEAD by http instead of https, or the other way round; None if the URL has a port."""
        if parts_of(me).port is not None:
            return None
        other = f"http{me[5:]}" if me.startswith("https:") else f"https{me[4:]}"
        return await self._ask(other, head=True, accept=PAGE_ACCEPT)

    async def _ask(
        self, url: str, *, accept: str, head: bool = False, limits: SendLimits | None = None
    ) -> Answered | FetchFailed:
        sending = Sending(url, accept=accept, limits=limits or SendLimits(), web_ports=self._web_ports)
        answer = await self._sender.send(replace(sending, method="HEAD") if head else sending)
        if isinstance(answer, FetchFailed):
            return replace(answer, detail=mask_credentials(answer.detail))
        return answer

    def _is_known(self, url: str, base: str | None) -> bool:
        """Whether no request is needed there, because it is this server."""
        return base is not None and not self._asks_itself and is_own(url, base)


def _meant(rel: str, url: str, provider: _Metadata) -> LinkLine | None:
    """The link in the provider's metadata that should replace one that doesn't work."""
    told = getattr(provider, rel, None)
    return LinkLine(rel, told) if told not in {None, url} else None


def _endpoints(provider: _Metadata, named: Mapping[str, str]) -> list[tuple[str, str]]:
    """Relation and address of all endpoints that must respond, each once."""
    found = [(rel, named[rel]) for rel in ("authorization_endpoint", "token_endpoint", "microsub") if rel in named]
    if isinstance(provider, ServerMetadata):
        found.append(("authorization_endpoint", provider.authorization_endpoint))
        found.append(("token_endpoint", provider.token_endpoint))
    return list(dict.fromkeys(found))
