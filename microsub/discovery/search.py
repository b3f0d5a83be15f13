"""Finds feeds by URL, domain or words, and shows one without following it.

Spec: https://indieweb.org/Microsub-spec#Search and #Preview. Nothing is stored here except copies of documents.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import structlog

from microsub.base.digests import sha256_hex
from microsub.base.errors import (
    InvalidRequest,
    ParseError,
    ParserUnavailable,
    ParsingStopped,
    TooManyRequests,
    private_hint,
)
from microsub.base.rate_limits import FixedWindow
from microsub.base.urls import mask_credentials, with_credentials_of
from microsub.discovery.directory import Directory
from microsub.discovery.entered import name_of
from microsub.discovery.queries import MAX_QUERY, PROFILE_IN, addresses, is_account, is_unusable_url
from microsub.fetch import Fetched, FetchFailed, Fetching, FetchRequest, FetchResult, who_asks
from microsub.formats.entry_id import identities
from microsub.formats.feed_links import (
    BETTER_FEEDS,
    DISCOVER,
    FORWARDED,
    FeedLink,
    common_paths,
    feeds_by_address,
    home_page,
)
from microsub.formats.parse import PARSE
from microsub.formats.wire import timestamp, to_wire
from microsub.model.jf2 import Feed
from microsub.model.reader import GLOBAL
from microsub.parsing.pool import ParsePool
from microsub.parsing.task import Task

PREVIEW_ITEMS = 20
SEARCH_SECONDS = 25.0
"""Time limit of a search, which may request many addresses in turn while a user waits."""

TITLE_SECONDS = 3.0
"""Seconds that a search waits for the real titles of the feeds it has found."""

PREVIEW_SECONDS = 40.0
PARSE_SECONDS = 10.0
"""Processor time for one document. Polls get more, because nobody waits for them."""

PARSE_PATIENCE = 15.0
"""Seconds that a document may wait for its turn: longer means a busy server, which isn't the publisher's fault."""

_BUSY_SECONDS = 10

MAX_PATHS = 9
"""Number of addresses to try for a page that names no feed: its home page, then usual addresses of feeds."""

MAX_TRIED = 3
"""Number of a page's feeds that a preview tries, and whose titles a search reads; a follow tries as many
(`polling.move`).
"""

log = structlog.get_logger(__name__)


class SearchAnswer(NamedTuple):
    """The feeds that a search found; `trouble` explains to users why there are none.

    `is_locked`: the address asks for a user name and password. `is_private`: a setting of the server can allow it.
    `is_elsewhere`: the page at the address names no feed; these are of its site.
    """

    feeds: list[FeedLink]
    trouble: str | None = None
    is_locked: bool = False
    is_private: bool = False
    is_elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class _Discovered:
    """The feeds found at an address; those that were `read` have their real titles.

    `failed` is the failure of an address that couldn't be fetched. `is_elsewhere`: another page of the site names them.
    """

    links: list[FeedLink] = field(default_factory=list)
    read: tuple[str, ...] = ()
    failed: FetchFailed | None = None
    is_elsewhere: bool = False


COPIES_OF_USER = 8 * 1024 * 1024
COPIES_IN_ALL = 64 * 1024 * 1024
"""Bytes of copies in Redis for searches and previews in an hour, of one user and of all users."""


class CopyShares:
    """Decides whether the copy of a fetched document is stored for an hour.

    It is, until the user's share or the total is used up; documents without a copy are fetched again. Counted per
    process. `seconds` is the hour.
    """

    def __init__(self, seconds: float) -> None:
        self._users = FixedWindow(COPIES_OF_USER, seconds)
        self._all = FixedWindow(COPIES_IN_ALL, seconds)

    def __call__(self, size: int) -> bool:
        """Count a copy of `size` bytes; returns whether there is room for it."""
        now, asker = time.monotonic(), who_asks()
        if not (self._users.has_room(asker, now, size) and self._all.has_room("", now, size)):
            return False
        return self._users.allows(asker, now, size) and self._all.allows("", now, size)


class Search:
    """Searches and previews. `parser` parses foreign documents within limits of time and memory."""

    def __init__(self, fetcher: Fetching, directory: Directory, parser: ParsePool) -> None:
        self._fetcher = fetcher
        self._parser = parser
        self._directory = directory

    async def feeds(self, query: str, now: float) -> SearchAnswer:
        """The feeds at a URL, a bare domain or a handle; for words, those of the directory. A feed that only programs
        write is found at exactly its address, which isn't requested.

        A feed of the query's origin has the query's user name and password. An empty result is no error; if an address
        can't be fetched, `trouble` names it. Raises InvalidRequest for a URL that isn't http(s) and for an overlong
        query; TooManyRequests if a host has too many waiting requests, or too many names are being looked up for the
        user.
        """
        if is_unusable_url(query):
            shown = mask_credentials(query.strip())[:200]
            raise InvalidRequest(f"'query' can't be used: found '{shown}', expected words, a domain or an http(s) URL")
        if len(query) > MAX_QUERY:
            raise InvalidRequest(f"'query' is too long: found {len(query)} characters, expected at most {MAX_QUERY}")
        trouble: str | None = None
        failures: list[FetchFailed | None] = []
        found = _Discovered()
        places = addresses(query)
        if written := await self._directory.written(places):
            return SearchAnswer(written)
        try:
            async with asyncio.timeout(SEARCH_SECONDS):
                known = len(places) > 1 and "://" in query
                for address in places:
                    found = await self._discover(address, account=is_account(query), usual=not known)
                    if found.links:
                        break
                    failures.append(found.failed)
        except TimeoutError:
            log.info("a search took too long", seconds=SEARCH_SECONDS)
            trouble = f"no answer in time: the search took more than {SEARCH_SECONDS:g} seconds"
        except ParsingStopped as error:
            log.info("a search found a document that can't be read", url=error.url, error=error.detail)
            trouble = f"{error.detail} ({error.url})"
        if found.links:
            return SearchAnswer(await self._with_own_titles(found, now), is_elsewhere=found.is_elsewhere)
        trouble = trouble or _trouble(failures)
        listed = [] if "://" in query else await self._directory.find(query, now)
        is_locked = not listed and any(failure is not None and failure.status == 401 for failure in failures)
        is_private = not listed and any(
            failure is not None and private_hint(failure.reason, failure.detail) for failure in failures
        )
        return SearchAnswer(listed, None if listed else trouble, is_locked, is_private)

    async def preview(self, url: str, now: float) -> list[dict[str, Any]]:
        """The newest items of the feed that following `url` would lead to, in wire form.

        Raises InvalidRequest and TooManyRequests as `feed_at` does.
        """
        return preview_items(await self.feed_at(url), url, now)

    async def feed_at(self, url: str) -> Feed:
        """The feed at `url`, or the first feed that the page there names.

        Raises InvalidRequest if there is none or the document can't be fetched, and TooManyRequests as `feeds` does.
        """
        try:
            async with asyncio.timeout(PREVIEW_SECONDS):
                return await self._feed_at(url)
        except TimeoutError:
            where = mask_credentials(url)
            raise InvalidRequest(f"'url' can't be read: no answer in time at {where}; expected a feed") from None
        except ParsingStopped as error:
            raise InvalidRequest(f"'url' can't be read: {error.detail}: {error.url}; expected a feed") from None

    async def _feed_at(self, url: str) -> Feed:
        document = await self._page(url)
        if isinstance(document, Fetched):
            feed = await self._parsed(document)
            if feed is None or feed.format == "h-feed":
                links = await self._links(BETTER_FEEDS, document) or (feeds_by_address(url) if feed is None else [])
                feed = await self._first_of(_with_credentials(url, links)) or feed
        elif (feed := await self._first_of(_known(url, document))) is None:
            found = document.detail if isinstance(document, FetchFailed) else "no document"
            raise InvalidRequest(f"'url' can't be read: {mask_credentials(url)}: {found}; expected a feed")
        if feed is None:
            raise InvalidRequest(f"'url' can't be used: found no feed at {mask_credentials(url)}, expected one")
        return feed

    async def _first_of(self, links: list[FeedLink]) -> Feed | None:
        """The first of these that really is a feed; named feeds may be gone or broken."""
        stopped: ParsingStopped | None = None
        for link in links[:MAX_TRIED]:
            linked = await self._get(link.url)
            try:
                if isinstance(linked, Fetched) and (feed := await self._parsed(linked)) is not None:
                    return feed
            except ParsingStopped as error:
                stopped = error
        if stopped is not None:
            raise stopped
        return None

    async def _with_own_titles(self, found: _Discovered, now: float) -> list[FeedLink]:
        """Replace titles by the feeds' own, for public feeds and for the first ones of a page."""
        known = await self._directory.titles([link.url for link in found.links], now)
        unread = [link.url for link in found.links[:MAX_TRIED] if link.url not in {*known, *found.read}]
        own = dict(zip(unread, await asyncio.gather(*map(self._own_title, unread)), strict=True)) | known
        return [replace(link, title=own.get(link.url) or link.title) for link in found.links]

    async def _own_title(self, url: str) -> str | None:
        """A feed's own title; None if it isn't available soon, since a search does without."""
        with suppress(TimeoutError, TooManyRequests, ParsingStopped, ParserUnavailable):
            async with asyncio.timeout(TITLE_SECONDS):
                document = await self._get(url)
                feed = await self._parsed(document) if isinstance(document, Fetched) else None
                return feed.name if feed is not None else None
        return None

    async def _discover(self, url: str, *, account: bool, usual: bool = True) -> _Discovered:
        """The feeds at one address; if it names none, its home page and usual addresses are tried (`usual`)."""
        document = await self._page(url)
        if not isinstance(document, Fetched):
            return _Discovered(_known(url, document), failed=document if isinstance(document, FetchFailed) else None)
        if account and (profile := await self._profile(document, url)):
            return await self._discover(profile, account=account)
        found = _with_credentials(url, await self._links(DISCOVER, document) or feeds_by_address(url))
        sure = [link for link in found if link.format]
        if sure or account:
            # The host's feed isn't the feed of somebody with an account there.
            return _Discovered(sure, read=(document.url, with_credentials_of(url, document.final_url)))
        if not usual:
            return _Discovered()
        home = home_page(document.final_url)
        if home and (there := await self._discover(with_credentials_of(url, home), account=False, usual=False)).links:
            return replace(there, is_elsewhere=True)
        guesses = [*(link.url for link in found[:MAX_TRIED]), *common_paths(document.final_url)]
        for guessed in guesses[: MAX_PATHS - bool(home)]:
            path = with_credentials_of(url, guessed)
            guess = await self._get(path)
            if (
                isinstance(guess, Fetched)
                and (feed := await self._parsed(guess)) is not None
                and feed.format != "h-feed"
            ):
                link = FeedLink(path, feed.format, feed.name, feed.photo, feed.description)
                return _Discovered([link], read=(path,), is_elsewhere=bool(home) and guessed not in _urls(found))
        return _Discovered()

    async def _profile(self, document: Fetched, url: str) -> str | None:
        """The profile that a WebFinger document names, or None."""
        try:
            return await self._parser.run(PROFILE_IN, document.url, document.body, url)
        except ParseError:
            return None

    async def _links(
        self, task: Task[list[FeedLink], str, str | None, str | None], document: Fetched
    ) -> list[FeedLink]:
        return await self._parser.run(task, *_located(document), document.headers.get("link"))

    async def _parsed(self, document: Fetched) -> Feed | None:
        """The feed in a document, or None. Raises ParsingStopped."""
        try:
            return await self._parser.run(PARSE, *_located(document))
        except ParsingStopped:
            raise
        except ParseError:
            return None

    async def _page(self, url: str) -> FetchResult:
        """The document at `url`, or the one that a page there redirects its visitors to."""
        document = await self._get(url)
        if not isinstance(document, Fetched):
            return document
        try:
            there = await self._parser.run(FORWARDED, *_located(document))
        except ParseError:
            there = None  # its next parser will report the error
        if there is None:
            return document
        other = await self._get(there)
        return other if isinstance(other, Fetched) else document

    async def _get(self, url: str) -> FetchResult:
        """Fetch a document. Raises TooManyRequests if a share is used up."""
        # The same `Accept` everywhere, so that a search's copy also serves the preview and the first poll of a follow.
        reply = await self._fetcher.fetch(FetchRequest(url))
        if isinstance(reply, FetchFailed) and reply.reason == "busy":
            raise TooManyRequests(reply.detail, math.ceil(reply.retry_after or _BUSY_SECONDS))
        return reply


PREVIEWED = "preview-"
PREVIEW_ID = re.compile(PREVIEWED + r"([0-9a-f]{12})[0-9a-f]{24}")
"""The id of a post in a preview: the name of the previewed address (`entered.name_of`), a digest of its identity."""


def preview_id(url: str, identity: str) -> str:
    """The id of a post in the preview of `url`."""
    return f"{PREVIEWED}{name_of(url)}{sha256_hex(identity)[:24]}"


def preview_items(feed: Feed, url: str, now: float) -> list[dict[str, Any]]:
    """The newest entries of the feed that `url` led to, as items of no user.

    Unread, in no channel, with ids by which only the user who previewed `url` can pick them (`discovery.picked`).
    They have no `_source`, because a feed's id would show whether anybody here follows it.
    """
    entries = sorted(
        zip(feed.entries, identities(feed.entries), strict=True),
        key=lambda pair: pair[0].published.timestamp() if pair[0].published else float("inf"),
        reverse=True,
    )
    channel = {"id": GLOBAL, "uid": GLOBAL, "name": "Preview"}
    latest = datetime.fromtimestamp(int(now), UTC)
    items = []
    for entry, identity in entries[:PREVIEW_ITEMS]:
        wire = to_wire(entry)
        if entry.published is None or entry.published > latest:
            wire["published"] = timestamp(latest)
        items.append({**wire, "_id": preview_id(url, identity), "_is_read": False, "_channel": channel})
    return items


def _urls(links: Iterable[FeedLink]) -> set[str]:
    return {link.url for link in links}


def _known(url: str, reply: FetchResult) -> list[FeedLink]:
    """The known feeds of a page that its site refuses to serve us."""
    return feeds_by_address(url) if isinstance(reply, FetchFailed) and reply.refused else []


def _with_credentials(url: str, links: Iterable[FeedLink]) -> list[FeedLink]:
    """Feeds that the document at `url` names, with the user name and password in `url` where they are its own."""
    return [replace(link, url=with_credentials_of(url, link.url)) for link in links]


def _trouble(failures: Sequence[FetchFailed | None]) -> str | None:
    """Explain why none of a search's addresses could be fetched.

    A server's reply says more than no reply, and the last address is the one people know (the profile of an account,
    after the addresses for programs).
    """
    failed = [failure for failure in failures if failure is not None]
    if not failed or len(failed) < len(failures):
        return None
    told = next((failure for failure in reversed(failed) if failure.status is not None), failed[-1])
    return f"{told.detail} ({mask_credentials(told.url)})"


def _located(document: Fetched) -> tuple[str, bytes, str, str | None]:
    """What every task for a page is given first."""
    return document.url, document.body, document.final_url, document.content_type
