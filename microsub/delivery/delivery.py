"""Delivery of stored items to the timelines of all followers, or to a single one.

Adding is idempotent and independent of earlier attempts: an interrupted delivery is simply repeated. Redis does most of
the work, in one script call per timeline. So calls are sent in batches, small enough for users' requests to be
answered between them, and the next batch is written while Redis works on the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from heapq import nlargest
from typing import TYPE_CHECKING

from microsub.base.clock import DAY
from microsub.base.errors import NotFound
from microsub.base.metrics import ITEMS_DELIVERED
from microsub.configuration.model import DeliverySettings
from microsub.model.reader import SAVED, ChannelKey, Reason
from microsub.model.settings import ChannelSettings
from microsub.posts import ItemsStored
from microsub.redis.protocol import Refusal
from microsub.timelines import (
    Incoming,
    Leaving,
    TimelineTarget,
    filtering_channels,
    restore_items,
    saved_of,
    settle_in,
    take_out,
)

if TYPE_CHECKING:
    from microsub.accounts import Activity
    from microsub.feeds import Feeds
    from microsub.model.reader import TimelineItem
    from microsub.posts import Items
    from microsub.redis.protocol import Redis
    from microsub.timelines import Adder
    from microsub.work import Message


def chooses(delivery: DeliverySettings, subscribers: int) -> bool:
    """Whether any timeline may be left for later, so that it matters when users were last seen."""
    return bool(delivery.away_days) or 0 < delivery.fan_out_limit < subscribers


def recipients(
    places: Sequence[ChannelKey], last_seen: Mapping[str, float], delivery: DeliverySettings, now: float
) -> tuple[Sequence[ChannelKey], Sequence[ChannelKey]]:
    """The timelines that get posts now, and those that get them when they are read.

    Left for later are users unseen for `away_days`, and all but the `fan_out_limit` seen last.

    Users who were never seen count as away. Among equals, the order of `places` decides.
    """
    if not chooses(delivery, len(places)):
        return places, ()
    since = now - delivery.away_days * DAY if delivery.away_days else float("-inf")
    never = float("-inf")
    there = [place for place in places if not delivery.away_days or last_seen.get(place[0], never) >= since]
    if 0 < delivery.fan_out_limit < len(there):
        there = nlargest(delivery.fan_out_limit, there, key=lambda place: last_seen.get(place[0], never))
    chosen = set(there)
    return there, [place for place in places if place not in chosen]


AT_ONCE = 20
"""Timelines per round trip. Two batches are in progress at a time, which block Redis for little more than a
millisecond; larger ones gain almost nothing.
"""


SettingsOfUsers = Callable[[], Awaitable[Callable[[str], ChannelSettings]]]
"""The settings for users' channels without their own: read once per message, used for every follower."""


Delivered = Callable[[str, Sequence[str]], Awaitable[object]]
"""Called with the feed that posts came from, and the users who got them, before the message is acknowledged."""


@dataclass(eq=False, repr=False)
class Delivery:
    """Adds items to timelines and applies edits there.

    `limits` decide which timelines get posts later; `activity` has the times when users were last seen.
    `delivered` is called after each delivery.
    """

    redis: Redis
    feeds: Feeds
    items: Items
    adder: Adder
    settings: SettingsOfUsers
    activity: Activity
    limits: Callable[[], Awaitable[DeliverySettings]]
    _: KW_ONLY
    delivered: Delivered | None = None
    clock: Callable[[], float] = time.time

    async def handle(self, message: Message) -> None:
        """Handle `ItemsStored` completely. Raises StoreError; any other error means an invalid message.

        Raises Refusal for a broken timeline, after all others have what the message brings.
        """
        news = ItemsStored.of(message.fields)
        now = self.clock()
        ids = list({*news.new, *news.edited, *news.reworded})
        if news.target is not None:
            items = {item.id: item for item in await self.items.timeline_items(ids)}
            await self._add(news.feed, _of(items, news.new), [news.target], now)
            await self._take_back(news.new, [news.target], now)
            await self._tell(news.feed, [news.target])
            return
        asking = self.feeds.audience.asking(news.feed)
        known, edition = await self.items.timeline_items_of(news.feed, ids, asking)
        places = await self.feeds.audience.at(news.feed, edition)
        items = {item.id: item for item in known}
        refused: Refusal | None = None
        for step in (
            partial(self._deliver, news.feed, _of(items, news.new), places, now),
            partial(self._recheck, _of(items, news.edited), places, now),
            partial(self._reconsider, news.feed, _of(items, (*news.edited, *news.reworded)), places, now),
            partial(self._take_back, ids, places, now),
            partial(self._tell, news.feed, places),
        ):
            try:
                await step()
            except Refusal as error:
                refused = refused or error
        if refused is not None:
            raise refused

    async def _tell(self, feed_id: str, places: Sequence[ChannelKey]) -> None:
        if self.delivered is not None:
            await self.delivered(feed_id, [user for user, _ in places])

    async def deliver_to(self, user: str, uid: str, feed_id: str, items: Sequence[TimelineItem], now: float) -> None:
        """Add `items` to one timeline, in a single call, which decides how many of a first fill are unread."""
        await self._add(feed_id, items, [(user, uid)], now)
        await self._take_back([item.id for item in items], [(user, uid)], now)

    async def _deliver(
        self, feed_id: str, items: Sequence[TimelineItem], places: Sequence[ChannelKey], now: float
    ) -> None:
        if not items:
            return
        at_once, later = await self._recipients(places, now)
        # Timelines left for later are noted first: after a crash in between they are noted again, never forgotten.
        if later:
            since = min((item.score for item in items), key=float)
            await _in_batches(later, partial(self.adder.put_off, feed_id, since))
        await self._add(feed_id, items, at_once, now)
        await self._save_instead(feed_id, items, places, now)

    async def _save_instead(
        self, feed_id: str, items: Sequence[TimelineItem], places: Sequence[ChannelKey], now: float
    ) -> None:
        """Replace saved copies of these posts, from imports, and keep their read state."""
        copies = {one.item: item for item in items for one in item.duplicates if one.feed == feed_id}

        async def replace(batch: Sequence[ChannelKey]) -> None:
            for user, saved in await saved_of(self.redis, {user for user, _ in batch}, list(copies)):
                oldest_first = sorted(saved, key=lambda copy: float(copies[copy].score))
                back = [(copies[copy], saved[copy]) for copy in oldest_first]
                with contextlib.suppress(NotFound):
                    await restore_items(self.redis, self.items, user, SAVED, back, (), now)
                    await take_out(self.redis, user, SAVED, list(saved), Leaving(Reason.DUPLICATE), now)

        if copies:
            await _in_batches(places, replace)

    async def _recipients(
        self, places: Sequence[ChannelKey], now: float
    ) -> tuple[Sequence[ChannelKey], Sequence[ChannelKey]]:
        limits = await self.limits()
        if not chooses(limits, len(places)):
            return places, ()
        return recipients(places, await self.activity.last_seen(user for user, _ in places), limits, now)

    async def _add(self, feed_id: str, items: Sequence[TimelineItem], places: Sequence[ChannelKey], now: float) -> None:
        if not items or not places:
            return
        settings = await self.settings()
        incoming = Incoming(self.items, feed_id, items, now)

        async def add(batch: Sequence[ChannelKey]) -> None:
            targets = []
            for user, uid in batch:
                own = settings(user)
                targets.append(TimelineTarget(user, uid, own.max_items or 0, own.first_fetch_unread or 0))
            ITEMS_DELIVERED.inc(sum(added.taken for added in await self.adder.add_to(targets, incoming)))

        await _in_batches(places, add)

    async def _take_back(self, ids: Sequence[str], places: Sequence[ChannelKey], now: float) -> None:
        """Remove posts that were deleted during their delivery."""
        rows = await self.items.fields(ids, ("score",))
        dead = [item_id for item_id, (score,) in zip(ids, rows, strict=True) if score is None]

        async def withdraw(user: str, uid: str) -> None:
            with contextlib.suppress(NotFound):
                await take_out(self.redis, user, uid, dead, Leaving(Reason.SWEPT), now)

        async def withdraw_all(batch: Sequence[ChannelKey]) -> None:
            await asyncio.gather(*(withdraw(*place) for place in batch))

        if dead:
            await _in_batches(places, withdraw_all)

    async def _recheck(self, items: Sequence[TimelineItem], places: Sequence[ChannelKey], now: float) -> None:
        if items:

            async def recheck(batch: Sequence[ChannelKey]) -> None:
                await settle_in(self.redis, batch, items, now)

            await _in_batches(places, recheck)

    async def _reconsider(
        self, feed_id: str, items: Sequence[TimelineItem], places: Sequence[ChannelKey], now: float
    ) -> None:
        """Offer edited items to channels with filters: an item that was filtered out may pass now."""
        if not items:
            return

        async def offer(batch: Sequence[ChannelKey]) -> None:
            await self._add(feed_id, items, await filtering_channels(self.redis, feed_id, batch), now)

        await _in_batches(places, offer)


def _of(items: dict[str, TimelineItem], ids: Sequence[str]) -> list[TimelineItem]:
    return [items[item_id] for item_id in dict.fromkeys(ids) if item_id in items]


async def _in_batches(places: Sequence[ChannelKey], act: Callable[[Sequence[ChannelKey]], Awaitable[None]]) -> None:
    """Act on `AT_ONCE` places at a time, one batch ahead of Redis.

    A broken place keeps no other from it: its batch is done again, each place alone, then the rest. Raises its Refusal.
    """
    refused: list[Refusal] = []
    ahead: asyncio.Future[None] | None = None
    try:
        for start in range(0, len(places), AT_ONCE):
            batch = places[start : start + AT_ONCE]
            behind, ahead = ahead, asyncio.ensure_future(_on_all(batch, act, refused))
            if behind is not None:
                await behind
        if ahead is not None:
            await ahead
    except BaseException:
        if ahead is not None:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)
        raise
    if refused:
        raise refused[0]


async def _on_all(
    batch: Sequence[ChannelKey], act: Callable[[Sequence[ChannelKey]], Awaitable[None]], refused: list[Refusal]
) -> None:
    """Act on these places, together if Redis refuses none of them; `refused` gets the errors."""
    try:
        await act(batch)
    except Refusal as error:
        if len(batch) == 1:
            refused.append(error)
        else:
            for place in batch:
                await _on_all([place], act, refused)
