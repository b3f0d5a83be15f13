"""Moves a permanently moved feed to its new address, or merges it with the feed there.

A followed page moves in the same way to the feed that it names. Its address then leads to the feed, so the next
follower doesn't cause a request for the page. The record's `pages` are the addresses that led to the feed, its `others`
the further feeds that the page named, in case this one never works. Only a feed that has never worked is left for
another at once: one that has worked may show a page during an hour of maintenance. It moves if the page stays for
days and names one feed of the same site that has its posts (`successor_of`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from microsub.base.errors import NotFound
from microsub.base.urls import (
    canonical_feed_url,
    host_of,
    mask_credentials,
    normalise_profile,
    web_parts,
    with_credentials_of,
)
from microsub.feeds import MERGED, MOVED_FROM, OTHERS, PAGES, is_settled, pages_of
from microsub.formats.feed_links import FeedLink, looks_like_feed
from microsub.model.reader import TimelineItem
from microsub.timelines import unsubscribe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from microsub.feeds import FeedRecord, Feeds, Schedule
    from microsub.fetch import FetchFailed
    from microsub.posts import Items
    from microsub.timelines import Channels


log = structlog.get_logger(__name__)

MOST_MOVED = 300
"""Maximum number of a feed's latest posts that are compared with those at its new address."""
_MOST_MERGED = 5
"""Maximum number of former feeds whose posts are compared with a feed's new posts."""
MOST_PAGES = 3
"""Maximum number of pages that lead to a feed, which also ends cycles of pages that name each other as feeds."""

_UNREAD = dict.fromkeys(
    (
        *("etag", "last_modified", "body_hash", "next_poll", "max_age", "hold_until"),
        *("failures", "last_error", "last_error_at"),
    )
)
NOT_MOVED: Mapping[str, str | None] = dict.fromkeys(("moved_to", "moved_seen", "moved_since"))
"""Fields of a record without a move under observation."""
_AS_NEW = _UNREAD | {**NOT_MOVED} | dict.fromkeys(("interval", "gap", "last_change", "answers"))


Moved = tuple[str, str | None]
"""The host where a feed is polled from now on, and the feed that it was merged into, if it was."""

DeliverTo = Callable[[str, str, str, Sequence[TimelineItem], float], Awaitable[None]]
"""User, channel uid, feed id, items, Unix time: adds the items to that timeline."""


@dataclass(eq=False, repr=False)
class Mover:
    """Moves feeds. Everything is idempotent: the next poll finishes an interrupted move."""

    feeds: Feeds
    items: Items
    channels: Channels
    schedule: Schedule
    deliver_to: DeliverTo

    async def move(self, feed: FeedRecord, url: str, now: float) -> Moved:
        """Move `feed` to `url`; unless another feed has that address, ids, items and read state stay."""
        owner = await self.feeds.rename(feed.id, url)
        log.info("feed moved", feed=feed.id, url=mask_credentials(feed.url), to=mask_credentials(url), known_as=owner)
        if owner is None:
            fields = {**NOT_MOVED}
            # A feed with posts remains separate from the new address, for users who follow that one from now on.
            if is_settled(feed) and normalise_profile(feed.url) != normalise_profile(url):
                fields[MOVED_FROM] = feed.extra.get(MOVED_FROM, feed.url)
            await self.feeds.update(feed.id, fields)
            return host_of(canonical_feed_url(url)), None
        known = await self.feeds.ensure(url, now)
        if known.gone:
            return host_of(feed.url), None  # its redirect still leads to new posts, the other feed doesn't
        await self._merge(feed, known, now)
        return host_of(feed.url), known.id

    async def to_successor(self, feed: FeedRecord, url: str, now: float) -> Moved | None:
        """Move `feed`, whose address shows a page, to the feed at `url` that the page names; None if that is gone."""
        if await self._is_gone(url, feed, now):
            return None
        await self.feeds.update(feed.id, _UNREAD)  # what the former address said about its document
        return await self.move(feed, url, now)

    async def from_page(self, page: FeedRecord, urls: Iterable[str], now: float) -> Moved | None:
        """Make the followers of `page` follow the first usable feed of `urls`; None without one.

        Gone feeds are unusable, and former addresses of this record too: two pages that name each other would send it
        back and forth.
        """
        here, passed = canonical_feed_url(page.url), pages_of(page)
        if len(passed) >= MOST_PAGES:
            return None
        candidates = [url for url in dict.fromkeys(map(canonical_feed_url, urls)) if url not in {here, *passed}]
        for place, target in enumerate(candidates):
            if await self._is_gone(target, page, now):
                continue
            # The page is noted first, so that after a crash the same attempt isn't repeated forever.
            trail = dict.fromkeys([*passed, here])
            others = " ".join(candidates[place + 1 :][:MOST_PAGES]) or None
            if target in others_of(page):
                await self.feeds.lead(here, page.id, "")  # the page before it named the next one, this address didn't
            await self.feeds.update(page.id, {**_AS_NEW, PAGES: " ".join(trail), OTHERS: others})
            return await self.move(page, target, now)
        return None

    async def _is_gone(self, url: str, feed: FeedRecord, now: float) -> bool:
        """Whether `url` is another feed's, and that one is gone."""
        return await self.feeds.find(url) not in {None, feed.id} and (await self.feeds.ensure(url, now)).gone

    async def join(self, feed: FeedRecord, now: float) -> Moved | None:
        """Merge `feed`, which has moved, with the feed now at its address; None if there is none.

        Only once that feed has posts, with which the former ones can be compared.
        """
        owner = await self.feeds.find(feed.url) if MOVED_FROM in feed.extra else None
        known = await self.feeds.get(owner) if owner not in {None, feed.id} else None
        if known is None or known.gone or known.last_success is None:
            return None
        await self._merge(feed, known, now)
        return host_of(feed.url), known.id

    async def _merge(self, feed: FeedRecord, owner: FeedRecord, now: float) -> None:
        """Make all followers of `feed` follow `owner`.

        The subscription changes first; then the owner's duplicates replace the old posts and keep their read state,
        because a duplicate whose feed isn't followed any more is replaced. The feeds declared these duplicates by
        moving, so their hosts don't matter. The old addresses are changed before all that: new followers need no
        merging, and the next poll finds the latest former ones.
        """
        for url in (feed.url, *pages_of(feed)):
            await self.feeds.lead(url, feed.id, owner.id)
        merged = dict.fromkeys([*owner.extra.get(MERGED, "").split(), feed.id])
        await self.feeds.update(owner.id, {MERGED: " ".join([*merged][-_MOST_MERGED:])})
        await self.items.succeed(owner.id, feed.id, MOST_MOVED)
        for user, uid in await self.feeds.subscribers(feed.id):
            await self.feeds.subscribe(owner.id, user, uid)
            try:
                if not await self.channels.update_subscription(user, uid, feed.id, new_feed=owner.id):
                    # It was unfollowed meanwhile, or changed before a crash.
                    await unsubscribe(self.channels, self.feeds, user, uid, owner.id)
            except NotFound:
                # The list of followers is derived; it may contain a deleted channel for a while.
                await self.feeds.unsubscribe(owner.id, user, uid)
            await self.deliver_to(user, uid, owner.id, await self._newest(owner.id), now)
            await self.feeds.unsubscribe(feed.id, user, uid)
        await self.schedule.add(owner.id, owner.poll_host, owner.due(now))

    async def _newest(self, feed_id: str) -> list[TimelineItem]:
        return await self.items.timeline_items(await self.items.newest(feed_id, MOST_MOVED))


def others_of(feed: FeedRecord) -> list[str]:
    """The other feeds that the page named, best first."""
    return feed.extra.get(OTHERS, "").split()


_PATIENCE = 2
"""Failures after which a feed's address may turn out to be a page's; and failures that count as temporary trouble."""


def instead_of_page(feed: FeedRecord, links: Sequence[FeedLink]) -> list[str]:
    """The addresses to follow instead of `feed`, which showed a page with these links.

    The address of a working feed is kept until it has shown pages for a while.
    """
    if is_settled(feed) or (looks_like_feed(feed.url) and feed.failures < _PATIENCE):
        return []
    return [with_credentials_of(feed.url, link.url) for link in links]


def successor_of(feed: FeedRecord, links: Sequence[FeedLink]) -> str | None:
    """The one feed among those that a page at a working feed's address names to which the feed may move, or None.

    Of several, one of the feed's own format. It is on the same host, the same with or without `www.`, or the host
    above it, whose owner decides about its subdomains; on the same port, and not by http instead of https.
    """
    ours, host = web_parts(feed.url), host_of(feed.url)
    if ours is None or feed.last_success is None:
        return None
    fitting = [
        link
        for link in links
        if (its := web_parts(link.url)) is not None
        and host_of(link.url) in {host, f"www.{host}", host.partition(".")[2]}
        and (its.port, its.scheme) in {(ours.port, ours.scheme), (ours.port, "https")}
        and canonical_feed_url(link.url) != canonical_feed_url(feed.url)
    ]
    if len(fitting) > 1:
        fitting = [link for link in fitting if link.format == feed.format]
    return with_credentials_of(feed.url, fitting[0].url) if len(fitting) == 1 else None


def instead_of_failure(feed: FeedRecord, failure: FetchFailed | None) -> list[str]:
    """The other addresses that the page of `feed` named; empty if the feed is to be kept.

    `failure` is None for a document that is no feed. Possibly temporary trouble gets a few more polls.
    """
    passing = failure is not None and not failure.lasting and feed.failures < _PATIENCE
    return [] if is_settled(feed) or passing else others_of(feed)
