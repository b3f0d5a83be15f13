"""Search in the public feeds of this instance, by words."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from microsub.configuration.model import InstanceSettings
from microsub.discovery.publicity import is_public
from microsub.feeds.store.record import FeedRecord, Feeds
from microsub.formats.entry_id import canonical_feed_url

FRESH_SECONDS = 300.0
"""How long a process remembers the list: a search by words may be that much behind."""

PUBLIC_FROM = 2
"""Followers (distinct users) from which on a feed is no longer one person's own affair."""

MAX_RESULTS = 50
_BATCH = 500


@dataclass(frozen=True, slots=True)
class ListedFeed:
    """A feed in the directory; `text` is what is searched, folded."""

    url: str
    title: str
    photo: str | None
    description: str | None
    format: str | None
    followers: int
    text: str


class Directory:
    """Public feeds: without anything like a secret in their URL, and followed by two users or listed by the admin."""

    def __init__(self, feeds: Feeds, settings: Callable[[], InstanceSettings]) -> None:
        self._feeds = feeds
        self._settings = settings
        self._listed: tuple[ListedFeed, ...] = ()
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

    async def titles(self, urls: Iterable[str], now: float) -> dict[str, str]:
        """The titles of those of `urls` that are public feeds, as they call themselves or the admin does."""
        listed = {feed.url: feed.title for feed in await self._all(now) if feed.title != feed.url}
        return {url: listed[known] for url in urls if (known := canonical_feed_url(url)) in listed}

    async def find(self, words: str, now: float) -> list[ListedFeed]:
        """The feeds in which every word occurs, most followed first."""
        wanted = fold(words).split()
        if not wanted:
            return []
        found = [feed for feed in await self._all(now) if all(word in feed.text for word in wanted)]
        return sorted(found, key=lambda feed: (-feed.followers, feed.title))[:MAX_RESULTS]

    async def _all(self, now: float) -> tuple[ListedFeed, ...]:
        async with self._reading:
            if self._read_at is None or not 0 <= now - self._read_at < FRESH_SECONDS:
                self._listed = await self._read()
                self._read_at = now
        return self._listed

    async def _read(self) -> tuple[ListedFeed, ...]:
        declared = {canonical_feed_url(feed.url): feed.name for feed in self._settings().public_feeds}
        found: dict[str, ListedFeed] = {
            url: _listed(FeedRecord("", url), declared[url], 0) for url in declared if is_public(url)
        }
        ids = await self._feeds.all_ids()
        for start in range(0, len(ids), _BATCH):
            records = (await self._feeds.get_many(ids[start : start + _BATCH])).values()
            for record, followers in await self._with_followers(records):
                if record.url in declared or followers >= PUBLIC_FROM:
                    found[record.url] = _listed(record, declared.get(record.url), followers)
        return tuple(found.values())

    async def _with_followers(self, records: Iterable[FeedRecord]) -> list[tuple[FeedRecord, int]]:
        public: Sequence[FeedRecord] = [record for record in records if is_public(record.url) and not record.gone]
        counts = await asyncio.gather(*(self._feeds.subscriber_count(record.id) for record in public))
        return list(zip(public, counts, strict=True))


def fold(text: str) -> str:
    """`text` for comparison: without regard to case and to marks on letters."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _listed(record: FeedRecord, name: str | None, followers: int) -> ListedFeed:
    title = name or record.title or record.url
    text = fold(" ".join(filter(None, (title, record.title, record.description, record.url, record.home))))
    return ListedFeed(record.url, title, record.photo, record.description, record.format, followers, text)
