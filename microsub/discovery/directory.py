"""Search in the public feeds of this instance, by words, and the rule for which feeds are public.

Many services offer private feeds at addresses that only their owner knows. A search must not show such an address, so
anything that looks like a secret excludes a feed. Hiding a public feed costs one user a paste; showing a private one
can't be undone.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

from microsub.base.plaintext import normalised
from microsub.base.urls import canonical_feed_url
from microsub.configuration.model import InstanceSettings
from microsub.feeds import FeedRecord, Feeds, is_public
from microsub.formats.feed_links import MAX_LINKS, FeedLink

FRESH_SECONDS = 300.0
"""How long a process caches the list: a search by words may be that much out of date."""

PUBLIC_FROM = 2
"""Number of followers (distinct users) from which a feed is no longer one person's private matter."""

WRITTEN = "written"
"""The format of a feed that only programs write."""

MAX_RESULTS = MAX_LINKS
MOST_WORDS = 20
"""Distinct words of a search that count; further words are ignored."""
_BATCH = 500


class Directory:
    """Public feeds: no secret in the URL, and followed by two users or listed by the admin."""

    def __init__(self, feeds: Feeds, settings: Callable[[], Awaitable[InstanceSettings]]) -> None:
        self._feeds = feeds
        self._settings = settings
        self._listed: Sequence[tuple[str, FeedLink]] = ()
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

    async def titles(self, urls: Iterable[str], now: float) -> dict[str, str]:
        """The titles, given by the feeds or by the admin, of the public feeds among `urls`."""
        listed = {feed.url: feed.title for _, feed in await self._all(now) if feed.title and feed.title != feed.url}
        return {url: listed[known] for url in urls if (known := canonical_feed_url(url)) in listed}

    async def find(self, words: str, now: float) -> list[FeedLink]:
        """The feeds that contain all words, most followed first."""
        wanted = list(dict.fromkeys(fold(words).split()))[:MOST_WORDS]
        if not wanted:
            return []
        listed = await self._all(now)
        found = (feed for text, feed in listed if all(word in text for word in wanted))
        return await asyncio.to_thread(lambda: list(islice(found, MAX_RESULTS)))

    async def written(self, urls: Iterable[str]) -> list[FeedLink]:
        """The feeds at exactly these URLs that only programs write: the web doesn't have them."""
        ids = await self._feeds.find_many(urls)
        records = await self._feeds.get_many(ids.values()) if ids else {}
        return [replace(_listed(one)[1], format=WRITTEN) for one in records.values() if one.is_written]

    async def _all(self, now: float) -> Sequence[tuple[str, FeedLink]]:
        """The feeds, each with the text by which it is found, the most followed first."""
        async with self._reading:
            if self._read_at is None or not 0 <= now - self._read_at < FRESH_SECONDS:
                self._listed = await self._read()
                self._read_at = now
        return self._listed

    async def _read(self) -> Sequence[tuple[str, FeedLink]]:
        declared = {canonical_feed_url(feed.url): feed.name for feed in (await self._settings()).public_feeds}
        found = {url: (0, *_listed(FeedRecord("", url), declared[url])) for url in declared if is_public(url)}
        ids = await self._feeds.all_ids()
        for start in range(0, len(ids), _BATCH):
            records = (await self._feeds.get_many(ids[start : start + _BATCH])).values()
            public = [
                (followers, record, declared.get(record.url))
                for record, followers in await self._with_followers(records)
                if record.url in declared or followers >= PUBLIC_FROM
            ]
            found |= await asyncio.to_thread(
                lambda some: {record.url: (count, *_listed(record, name)) for count, record, name in some}, public
            )
        ranked = await asyncio.to_thread(sorted, found.values(), key=lambda one: (-one[0], one[2].title or ""))
        return [(text, feed) for _, text, feed in ranked]

    async def _with_followers(self, records: Iterable[FeedRecord]) -> list[tuple[FeedRecord, int]]:
        public = await asyncio.to_thread(
            lambda: [record for record in records if is_public(record.url) and not record.gone]
        )
        counts = await asyncio.gather(*(self._feeds.subscriber_count(record.id) for record in public))
        return list(zip(public, counts, strict=True))


def fold(text: str) -> str:
    """Normalise `text` for comparison: without case and diacritics."""
    decomposed = normalised("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _listed(record: FeedRecord, name: str | None = None) -> tuple[str, FeedLink]:
    """The text by which a feed is found, folded, and the feed."""
    title = name or record.title or record.url
    text = fold(" ".join(filter(None, (title, record.title, record.description, record.url, record.home))))
    return text, FeedLink(record.url, record.format or "", title, record.photo, record.description)
