"""The check of a profile page: what it lacks for signing in and reading.

The page is asked as reader apps ask it. Who asks chooses the page and what it names, so everything goes out by the
guarded door, within a time, a few
at once, and no site is asked too often. Nothing is sent anywhere but plain requests without any secret.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from microsub.errors import ParseError, TooManyRequests
from microsub.fetch import FEED_ACCEPT, PAGE_ACCEPT, Answered, FetchFailed, Sender, Sending, SendLimits
from microsub.formats.html.trees import MAX_PAGE
from microsub.identity.limits import PAGE_CHECKS_IN_ALL, PAGE_CHECKS_OF_NETWORK, PAGE_CHECKS_OF_SITE
from microsub.identity.page_check.findings import (
    RELS,
    CheckedAgainst,
    LinkLine,
    PageFinding,
    PageReport,
    address_findings,
    answering_findings,
    caching_findings,
    differing_findings,
    endpoint_findings,
    feed_findings,
    head_findings,
    link_findings,
    metadata_failed,
    metadata_findings,
    microsub_findings,
    microsub_line,
    misplaced_findings,
    missing_findings,
    mistyped_here,
    ok,
    own_provider_findings,
    problem,
    profile_page,
    query_finding,
    scheme_findings,
    user_of,
)
from microsub.identity.profiles import trail_of
from microsub.identity.protocol.documents import ServerMetadata, is_own, read_metadata
from microsub.identity.protocol.links import ExaminedPage, WrittenLink, canonical_me, endpoint, site_of_me
from microsub.kit.rate_limits import MINUTE, RateLimiter
from microsub.kit.urls import mask_credentials
from microsub.parsing.pool import ParsePool

SECONDS = 20.0
"""For everything together; each exchange has five."""

_PAGE = SendLimits(total=5.0, body=MAX_PAGE)
_FEED = SendLimits(total=5.0, body=1024 * 1024)


@dataclass(frozen=True, slots=True)
class _FetchedPage:
    """A page that was had, and what was read off it.

    `named` are usable addresses, the first of each relation; `in_body` the relations of links in its body.
    """

    answer: Answered
    links: tuple[WrittenLink, ...]
    named: dict[str, str]
    in_body: frozenset[str]
    is_html: bool
    feeds: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class _ProviderMetadata:
    """What became of the metadata: `metadata` or `failure`, neither where the page names none."""

    metadata: ServerMetadata | None = None
    failure: str = ""


@dataclass(slots=True)
class _FindingsSoFar:
    """Findings so far: they are there too when time runs out."""

    findings: list[PageFinding] = field(default_factory=list)

    def add(self, *found: PageFinding) -> None:
        self.findings += found


class _WebPorts:
    """Sends to ports 80 and 443 alone, but in networks that the admin lists."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    async def send(self, sending: Sending) -> Answered | FetchFailed:
        """See `Sender`."""
        return await self._sender.send(replace(sending, web_ports=True))


class PageDoctor:
    """Examines pages. `private` is for instances that reach private networks.

    Belongs to one event loop.

    `asks_itself`: whether endpoints of this very server are asked over HTTP too, as from the command line; a server
    that runs needn't ask itself.
    """

    def __init__(
        self,
        sender: Sender,
        parser: ParsePool,
        *,
        private: bool = False,
        asks_itself: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        self._parser = parser
        self._private = private
        self._asks_itself = asks_itself
        self._limiter = RateLimiter(clock)

    async def examine_for(self, client: str, address: str, here: CheckedAgainst, *, known: bool = False) -> PageReport:
        """`examine` for somebody at the network `client`: not too often.

        Raises TooManyRequests, InvalidRequest.

        Only what is really examined counts. Unless they are `known`, ports 80 and 443 alone are asked, because what is
        found tells whether a port is open.
        """
        limiter, wait = self._limiter, int(MINUTE)
        site = site_of_me(canonical_me(address, private=self._private))
        if not limiter.has_room(PAGE_CHECKS_OF_NETWORK, client):
            most = PAGE_CHECKS_OF_NETWORK.most
            raise TooManyRequests(f"{most} pages a minute are checked for each of you; wait a minute", wait)
        if not limiter.has_room(PAGE_CHECKS_OF_SITE, site):
            raise TooManyRequests(f"{site} has been checked too often; wait a minute", wait)
        if not limiter.has_room(PAGE_CHECKS_IN_ALL):
            raise TooManyRequests("too many pages are being checked just now; try again in some seconds", 5)
        limiter.count(PAGE_CHECKS_OF_NETWORK, client)
        limiter.count(PAGE_CHECKS_OF_SITE, site)
        give_back = limiter.take([(PAGE_CHECKS_IN_ALL, "")])
        try:
            doctor = self if known else PageDoctor(_WebPorts(self._sender), self._parser, private=self._private)
            return await doctor.examine(address, here)
        finally:
            give_back()

    async def examine(self, address: str, here: CheckedAgainst) -> PageReport:
        """What is found at `address`.

        Raises InvalidRequest for what can be no profile URL; what pages, servers and networks do is a finding.
        """
        me = canonical_me(address, private=self._private)
        notes = _FindingsSoFar()
        try:
            async with asyncio.timeout(SECONDS):
                await self._examine(me, here, notes)
        except TimeoutError:
            notes.add(problem("time", f"not everything answered within {SECONDS:g} seconds", "Try again later."))
        return PageReport(me, tuple(dict.fromkeys(notes.findings)))

    async def _examine(self, me: str, here: CheckedAgainst, notes: _FindingsSoFar) -> None:
        got, head, other = await asyncio.gather(
            self._ask(me, limits=_PAGE, accept=PAGE_ACCEPT),
            self._ask(me, head=True, accept=PAGE_ACCEPT),
            self._other_scheme(me),
        )
        if isinstance(got, FetchFailed):
            fix = (
                "Check the address and its certificate. The address of a page without https begins with http://."
                if got.reason == "tls"
                else "Check the address."
            )
            notes.add(problem("page", f"the page can't be fetched: {got.detail}", fix))
            return
        if not 200 <= got.status < 300:
            notes.add(
                problem(
                    "page",
                    f"{got.final_url} answers {got.status}, where 200 was expected",
                    "Check the address and the web server.",
                )
            )
            return
        try:
            page = _fetched_page(got, await self._parser.examined(got))
        except ParseError as error:
            text = f"the page can't be read: {error.detail}"
            notes.add(problem("page", text, "Make it shorter, or nest its elements less deeply."))
            return
        trail = trail_of(me, got.hops, private=self._private)
        notes.add(*_page_findings(page), *address_findings(me, got.hops, trail, private=self._private))
        notes.add(*scheme_findings(me, other), *head_findings(got, head), *caching_findings(got))
        named, base = page.named, here.base
        if "microsub" in named:
            own = any(is_own(named.get(rel), base) for rel in RELS[1:3]) if base else False
            notes.add(*endpoint_findings(named["microsub"], here, trail, own_provider=own))
            notes.add(*query_finding(named["microsub"]))
        user = user_of(trail, here)
        for rel in RELS:
            ours = microsub_line(base, user or "YOUR-NAME") if base is not None and rel == "microsub" else None
            notes.add(*link_findings(rel, page.links, got, ours))
        written = {rel for link in page.links for rel in link.rels if rel in RELS}
        misplaced = frozenset((page.in_body & {*RELS}) - written)
        has = frozenset(written | misplaced)
        # A line in the wrong place is one thing to correct, and isn't missing beside that.
        missing = missing_findings(has, base, user, is_lent=_is_lent(page, base))
        notes.add(*misplaced_findings(misplaced), *missing)
        await self._servers(page, base, notes)

    async def _servers(self, page: _FetchedPage, base: str | None, notes: _FindingsSoFar) -> None:
        """Ask the servers that the page names, except those known to be mistyped."""
        wrong = mistyped_here(page.named, base)
        named = {rel: url for rel, url in page.named.items() if rel not in wrong}
        provider, feeds = await asyncio.gather(self._metadata(named.get("indieauth-metadata"), base), self._feeds(page))
        asked = _endpoints(provider, named)
        answers = await asyncio.gather(*(self._answer(url, base) for _, url in asked))
        found: list[PageFinding] = []
        failed = set()
        for (rel, url), answer in zip(asked, answers, strict=True):
            if answer is None:
                continue
            meant = _meant(rel, url, page, provider)
            if rel == "microsub":
                said = [*microsub_findings(url, answer, meant)]
            else:
                said = [*answering_findings(rel, url, answer, private=self._private, meant=meant)]
            found += said
            if url == named.get(rel) and said[0].level == "problem":
                failed.add(rel)
        working = {rel: url for rel, url in named.items() if rel not in failed}
        notes.add(*_provider_findings(provider, working), *found)
        if base is not None:
            notes.add(*own_provider_findings(page.named, base))
        if not _is_lent(page, base):  # which can have no feed
            notes.add(*feeds)

    async def _metadata(self, url: str | None, base: str | None) -> _ProviderMetadata:
        if url is None or self._is_known(url, base):
            return _ProviderMetadata()
        answer = await self._ask(url, accept="application/json")
        if isinstance(answer, FetchFailed):
            return _ProviderMetadata(failure=answer.detail)
        if not 200 <= answer.status < 300:
            return _ProviderMetadata(failure=f"status {answer.status}, expected 200")
        failure = ""
        for place in dict.fromkeys((url, answer.final_url)):
            try:
                return _ProviderMetadata(read_metadata(answer.body, place, private=self._private))
            except ParseError as error:
                failure = failure or error.detail
        return _ProviderMetadata(failure=failure)

    async def _feeds(self, page: _FetchedPage) -> list[PageFinding]:
        if page.feeds is None:
            return []
        first = None
        if page.feeds and page.feeds[0] != page.answer.final_url:
            first = await self._ask(page.feeds[0], accept=FEED_ACCEPT, limits=_FEED)
        return list(feed_findings(page.feeds, first))

    async def _answer(self, url: str, base: str | None) -> Answered | FetchFailed | None:
        return None if self._is_known(url, base) else await self._ask(url, accept="application/json, */*;q=0.1")

    async def _other_scheme(self, me: str) -> Answered | FetchFailed | None:
        """HEAD of the page by http instead of https, or the other way round; None where a port rules that out."""
        if urlsplit(me).port is not None:
            return None
        other = f"http{me[5:]}" if me.startswith("https:") else f"https{me[4:]}"
        return await self._ask(other, head=True, accept=PAGE_ACCEPT)

    async def _ask(
        self, url: str, *, accept: str, head: bool = False, limits: SendLimits | None = None
    ) -> Answered | FetchFailed:
        sending = Sending(url, method="HEAD" if head else "GET", accept=accept, limits=limits or SendLimits())
        answer = await self._sender.send(sending)
        if isinstance(answer, FetchFailed):
            return replace(answer, detail=mask_credentials(answer.detail))
        return answer

    def _is_known(self, url: str, base: str | None) -> bool:
        """Whether nothing need be asked there, since it is this server."""
        return base is not None and not self._asks_itself and is_own(url, base)


def _is_lent(page: _FetchedPage, base: str | None) -> bool:
    """Whether it is a page that the server at `base` lends to a user, who can change nothing on it."""
    return base is not None and page.answer.final_url.startswith(profile_page(base, ""))


def _meant(rel: str, url: str, page: _FetchedPage, provider: _ProviderMetadata) -> LinkLine | None:
    """The line that the provider's metadata has in place of one that leads to nothing."""
    if page.named.get(rel) != url:
        return None
    told = getattr(provider.metadata, rel, None)
    return LinkLine(rel, told) if told not in {None, url} else None


def _provider_findings(provider: _ProviderMetadata, named: Mapping[str, str]) -> list[PageFinding]:
    url = named.get("indieauth-metadata", "")
    if provider.failure:
        return [metadata_failed(url, provider.failure)]
    if provider.metadata is not None:
        return [*metadata_findings(provider.metadata, url), *differing_findings(provider.metadata, named)]
    return []


def _endpoints(provider: _ProviderMetadata, named: Mapping[str, str]) -> list[tuple[str, str]]:
    """Relation and address of all that is to be asked whether it answers, each once."""
    found = [(rel, named[rel]) for rel in ("authorization_endpoint", "token_endpoint", "microsub") if rel in named]
    if provider.metadata is not None:
        found.append(("authorization_endpoint", provider.metadata.authorization_endpoint))
        found.append(("token_endpoint", provider.metadata.token_endpoint))
    return list(dict.fromkeys(found))


def _page_findings(page: _FetchedPage) -> list[PageFinding]:
    if page.is_html:
        return [ok("page", f"{page.answer.final_url} answers {page.answer.status}")]
    kind = (page.answer.content_type or "nothing").partition(";")[0][:80]
    return [
        problem(
            "page",
            f"{page.answer.final_url} isn't served as HTML (Content-Type: {kind}), so only its Link headers count",
            "Serve the page as text/html.",
        )
    ]


def _fetched_page(answer: Answered, found: ExaminedPage) -> _FetchedPage:
    named: dict[str, str] = {}
    for link in found.links:
        for rel in link.rels:
            if rel in RELS and rel not in named and (address := endpoint(link.target, link.base)) is not None:
                named[rel] = address
    return _FetchedPage(answer, found.links, named, found.in_body, found.is_html, found.feeds)
