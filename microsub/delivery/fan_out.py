"""From stored items to the timelines of everybody who follows their feed.

Adding is idempotent and asks nothing of earlier attempts: a fan-out that broke off is simply done again. Most of the
work is Redis', one script call per timeline; so calls go in batches, small enough that readers' requests find their
turn between them, and the next batch is written while Redis works on the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from microsub.configuration.model import DeliverySettings
from microsub.delivery.recipients import Place, Recipients, chooses, recipients
from microsub.errors import NotFound
from microsub.metrics import ITEMS_DELIVERED
from microsub.model.reader import Reason
from microsub.model.settings import USUAL, ChannelSettings
from microsub.posts.messages import ItemsStored
from microsub.timelines.store.add import AGAIN, DOUBT, Incoming, TimelineTarget, filtering_channels
from microsub.timelines.store.remove import Leaving, take_out
from microsub.timelines.store.rules import settle_in

if TYPE_CHECKING:
    from microsub.feeds.store.record import Feeds
    from microsub.identity.store.activity import Activity
    from microsub.model.reader import TimelineItem
    from microsub.posts.store.items import Items
    from microsub.redis.protocol import Redis, ScriptCall
    from microsub.redis.streams import Message
    from microsub.timelines.store.add import Adder, Behind

AT_ONCE = 20
"""Timelines per round trip. Two of these are under way at a time, which hold up Redis for little more than a
millisecond; more of them bring next to nothing.
"""


SettingsOfUsers = Callable[[], Awaitable[Callable[[str], ChannelSettings]]]
"""What holds for the users' channels that say nothing else: asked once per message, and then for every subscriber."""


async def default_settings_of_users() -> Callable[[str], ChannelSettings]:
    """The defaults for everybody."""
    return lambda _user: USUAL


@dataclass(frozen=True, slots=True)
class Patient:
    """What it takes to leave some timelines for later: when users were last seen, and where to note what waits."""

    activity: Activity
    behind: Behind
    settings: Callable[[], DeliverySettings] = DeliverySettings


class FanOut:
    """Puts items into timelines and tells timelines about edits. Without `patient` all get everything at once."""

    def __init__(
        self,
        redis: Redis,
        feeds: Feeds,
        items: Items,
        adder: Adder,
        settings: SettingsOfUsers = default_settings_of_users,
        *,
        patient: Patient | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._redis = redis
        self._feeds = feeds
        self._items = items
        self._adder = adder
        self._settings = settings
        self._patient = patient
        self._clock = clock

    async def handle(self, message: Message) -> Sequence[ScriptCall]:
        """Handle `ItemsStored`, all of it. Raises StoreError; anything else is a message that isn't ours."""
        news = ItemsStored.of(message.fields)
        now = self._clock()
        ids = list({*news.new, *news.edited, *news.reworded})
        if news.target is not None:
            items = {item.id: item for item in await self._items.timeline_items(ids)}
            again = DOUBT if news.doubt else AGAIN
            await self._add(news.feed, _of(items, news.new), [news.target], now, again)
            await self._take_back(news.new, [news.target], now)
            return ()
        asking = self._feeds.asking_edition(news.feed)
        known, edition = await self._items.timeline_items_of(news.feed, ids, asking)
        places = await self._feeds.audience_at(news.feed, edition)
        items = {item.id: item for item in known}
        await self._deliver(news.feed, _of(items, news.new), places, now)
        await self._recheck(_of(items, news.edited), places, now)
        await self._reconsider(news.feed, _of(items, (*news.edited, *news.reworded)), places, now)
        await self._take_back(ids, places, now)
        return ()

    async def deliver_to(self, user: str, uid: str, feed_id: str, items: Sequence[TimelineItem], now: float) -> int:
        """Add `items` to one timeline; how many it took in.

        All of them go in one call: how many of a first fill stay unread is decided there.
        """
        taken = await self._add(feed_id, items, [(user, uid)], now)
        await self._take_back([item.id for item in items], [(user, uid)], now)
        return taken

    async def _deliver(self, feed_id: str, items: Sequence[TimelineItem], places: Sequence[Place], now: float) -> int:
        if not items:
            return 0
        chosen = await self._recipients(places, now)
        # What is left for later is noted first: after a crash in between it is noted once more, never forgotten.
        if chosen.later and self._patient is not None:
            since = min((item.score for item in items), key=float)
            behind = self._patient.behind

            async def note(batch: Sequence[Place]) -> int:
                uids: dict[str, list[str]] = {}
                for user, uid in batch:
                    uids.setdefault(user, []).append(uid)
                return await behind.note(feed_id, since, uids)

            await _in_batches(chosen.later, note)
        return await self._add(feed_id, items, chosen.now, now)

    async def _recipients(self, places: Sequence[Place], now: float) -> Recipients:
        if self._patient is None:
            return Recipients(places)
        settings = self._patient.settings()
        if not chooses(settings, len(places)):
            return Recipients(places)
        return recipients(places, await self._patient.activity.last_seen(user for user, _ in places), settings, now)

    async def _add(
        self, feed_id: str, items: Sequence[TimelineItem], places: Sequence[Place], now: float, again: str = ""
    ) -> int:
        if not items or not places:
            return 0
        settings = await self._settings()
        incoming = Incoming(self._items, feed_id, items, now, again=again)

        async def add(batch: Sequence[Place]) -> int:
            targets = []
            for user, uid in batch:
                own = settings(user)
                targets.append(TimelineTarget(user, uid, own.max_items or 0, own.first_fetch_unread or 0))
            return sum(added.taken for added in await self._adder.add_to(targets, incoming))

        taken = await _in_batches(places, add)
        ITEMS_DELIVERED.inc(taken)
        return taken

    async def _take_back(self, ids: Sequence[str], places: Sequence[Place], now: float) -> None:
        """Withdraw posts that were deleted while they were delivered: the deletion may have been faster."""
        rows = await self._items.fields(ids, ("score",))
        dead = [item_id for item_id, (score,) in zip(ids, rows, strict=True) if score is None]

        async def withdraw(user: str, uid: str) -> int:
            with contextlib.suppress(NotFound):
                return len(await take_out(self._redis, user, uid, dead, Leaving(Reason.SWEPT), now))
            return 0

        async def withdraw_all(batch: Sequence[Place]) -> int:
            return sum(await asyncio.gather(*(withdraw(*place) for place in batch)))

        if dead:
            await _in_batches(places, withdraw_all)

    async def _recheck(self, items: Sequence[TimelineItem], places: Sequence[Place], now: float) -> None:
        if items:

            async def recheck(batch: Sequence[Place]) -> int:
                return sum(map(len, await settle_in(self._redis, batch, items, now)))

            await _in_batches(places, recheck)

    async def _reconsider(
        self, feed_id: str, items: Sequence[TimelineItem], places: Sequence[Place], now: float
    ) -> None:
        """Offer edited items to the channels that filter: one that was filtered out may read otherwise now."""
        if not items:
            return

        async def offer(batch: Sequence[Place]) -> int:
            return await self._add(feed_id, items, await filtering_channels(self._redis, batch), now)

        await _in_batches(places, offer)


def _of(items: dict[str, TimelineItem], ids: Sequence[str]) -> list[TimelineItem]:
    return [items[item_id] for item_id in dict.fromkeys(ids) if item_id in items]


async def _in_batches(places: Sequence[Place], act: Callable[[Sequence[Place]], Awaitable[int]]) -> int:
    """Act on `AT_ONCE` places after the other, one batch ahead of Redis; the sum of what that returns."""
    total = 0
    ahead: asyncio.Future[int] | None = None
    try:
        for start in range(0, len(places), AT_ONCE):
            behind, ahead = ahead, asyncio.ensure_future(act(places[start : start + AT_ONCE]))
            if behind is not None:
                total += await behind
        return total + (await ahead if ahead is not None else 0)
    except BaseException:
        if ahead is not None:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)
        raise
