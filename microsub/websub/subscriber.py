"""Workers create, renew and end subscriptions when they are due.

Each look at a feed starts from the state in Redis (`plan_push`), and may be repeated at any step. A callback
is written before its hub gets it, so its verification is recognised; unverified ones are asked for again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from microsub.base.metrics import WEBSUB_MISSED
from microsub.base.periodic import PACE, RoundTiming, run_periodically
from microsub.base.urls import host_of
from microsub.websub.store import callback_fields
from microsub.websub.subscriptions import (
    Callback,
    FeedSubscriptions,
    WantedSubscription,
    health_of,
    new_callback,
    pause_after,
    plan_push,
    wanted_subscription,
    without,
)
from microsub.work import calendar_of

if TYPE_CHECKING:
    from microsub.feeds import FeedRecord, Feeds, Schedule
    from microsub.fetch import RequestFailure
    from microsub.redis.protocol import Redis
    from microsub.websub.hubs import Hubs
    from microsub.websub.store import SubscriptionStore

log = structlog.get_logger(__name__)

DUE = "websub"
"""The kind of work, as `work.calendar` has it."""

LOOKS_AT_ONCE = 16
"""Feeds whose hubs are asked at the same time."""

BETWEEN_LOOKS = 2.0
"""Seconds between two looks for due feeds."""

_FARTHEST = 1.5 * 86_400
"""Maximum seconds until a planned look, because `work.calendar` doesn't allow more."""

_PUT_OFF = 30.0
_LASTING = 86_400.0
"""Seconds until the next request after a lasting refusal by a hub, and the longest `Retry-After` that counts."""
_BATCH = 500


class Subscriber:
    """Manages the subscriptions of all followed feeds; `hubs` None: this server isn't public, ends all."""

    def __init__(
        self,
        redis: Redis,
        feeds: Feeds,
        schedule: Schedule,
        subscription_store: SubscriptionStore,
        hubs: Hubs | None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._feeds = feeds
        self._schedule = schedule
        self._store = subscription_store
        self._hubs = hubs
        self._clock = clock
        self._due = calendar_of(redis, DUE)

    async def polled(self, feed: FeedRecord, missed: int) -> None:
        """Note that a poll read `feed`, and found `missed` posts that its hub should have delivered."""
        if missed and feed.hub:
            WEBSUB_MISSED.inc(missed)
            await self._store.count(feed.hub, missed=missed)
        wanted = wanted_subscription(feed)
        if self._hubs is not None and feed.extra.get("push_to", "") != (str(wanted) if wanted else ""):
            await self._due.note({feed.id: self._clock()})

    async def visit(self, feed_id: str) -> float | None:
        """Do what is due for a feed; returns when to look again, None for never. Raises StoreError."""
        feed = await self._feeds.get(feed_id)
        if feed is None:
            return None
        subscriptions = await self._store.get(feed_id)
        wanted = (
            wanted_subscription(feed) if self._hubs is not None and await self._feeds.subscribers(feed_id) else None
        )
        now = self._clock()
        plan = plan_push(subscriptions, wanted, now)
        if wanted is None or subscriptions.to != str(wanted):
            subscriptions = replace(subscriptions, to=str(wanted or ""), tries=0, next=0.0)
        subscriptions = replace(subscriptions, callbacks=without(subscriptions, plan.over))
        why = feed.extra.get("push_why", "") if wanted is not None else ""
        if plan.over or not _says(feed, health_of(subscriptions, feed, why, now)):
            await self._write(feed, subscriptions, why, gone=plan.over)
        for callback in plan.end:
            subscriptions = await self._end(feed, subscriptions, callback)
        look = plan.look
        if plan.ask and wanted is not None:
            look = await self._ask(feed, subscriptions, wanted)
        return None if look is None else min(look, now + _FARTHEST)

    async def look_at_all(self, now: float) -> None:
        """Plan work for each feed that names a hub or has a subscription, if nothing is planned."""
        ids = await self._feeds.all_ids()
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            there = set(await self._store.with_callbacks(batch))
            records = (await self._feeds.get_many(batch)).values()
            wanted = [one.id for one in records if one.id in there or (one.hub and self._hubs is not None)]
            await self._due.note(dict.fromkeys(wanted, now), "missing")

    async def run_forever(self, pace: RoundTiming = PACE) -> None:
        """Do what is due, repeatedly, until cancelled."""
        await run_periodically(self.visit_due, DUE, pace, BETWEEN_LOOKS)

    async def visit_due(self, now: float) -> int:
        """Do what is due; returns for how many feeds."""
        return await self._due.visit(now, self.visit, at_once=LOOKS_AT_ONCE)

    async def _ask(self, feed: FeedRecord, subscriptions: FeedSubscriptions, wanted: WantedSubscription) -> float:
        assert self._hubs is not None
        now = self._clock()
        callback = new_callback(wanted, now)
        pause = pause_after(subscriptions.tries, subscriptions.effective(now), now)
        asked = replace(
            subscriptions,
            callbacks=(*subscriptions.callbacks, callback),
            tries=subscriptions.tries + 1,
            next=now + pause,
        )
        if not await self._write(feed, asked, "waiting for the hub to verify the subscription", callback):
            return now + _PUT_OFF
        failure = await self._hubs.ask(feed.id, callback, "subscribe")
        if failure is None:
            await self._store.count(wanted.hub, asked=1)
            log.info("a hub was asked for a subscription", feed=feed.id, hub=host_of(wanted.hub))
            return asked.next
        return await self._refused(feed, callback, subscriptions, failure)

    async def _refused(
        self, feed: FeedRecord, callback: Callback, before: FeedSubscriptions, failure: RequestFailure
    ) -> float:
        """Forget a request that a hub refused; the earlier subscriptions stay."""
        now = self._clock()
        if failure.ours:
            wait, tries = _PUT_OFF + (failure.retry_after or 0.0), before.tries
        else:
            least = _LASTING if failure.lasting else min(failure.retry_after or 0.0, _LASTING)
            wait = max(pause_after(before.tries, before.effective(now), now), least)
            tries = before.tries + 1
            await self._store.count(callback.hub, refused=1)
            log.info("a hub refused a subscription", feed=feed.id, hub=host_of(callback.hub), why=failure.why)
        left = replace(before, tries=tries, next=now + wait)
        # If the hub verified before its reply failed, it has accepted the callback.
        await self._write(feed, left, failure.why, gone=(callback,), read=callback)
        return now + wait

    async def _end(self, feed: FeedRecord, subscriptions: FeedSubscriptions, callback: Callback) -> FeedSubscriptions:
        """Ask a hub to end a subscription; deliveries are accepted until it verifies or the lease ends."""
        now = self._clock()
        ending = replace(callback, ending=now)
        callbacks = tuple(ending if one.token == callback.token else one for one in subscriptions.callbacks)
        after = replace(subscriptions, callbacks=callbacks)
        why = feed.extra.get("push_why", "")
        if not await self._store.write(
            feed.id, callback_fields(ending), health_of(after, feed, why, now), read=callback
        ):
            return subscriptions
        if self._hubs is not None:
            failure = await self._hubs.ask(feed.id, ending, "unsubscribe")
            why = failure.why if failure is not None else ""
            log.info("a hub was asked to end a subscription", feed=feed.id, hub=host_of(callback.hub), why=why)
        return after

    async def _write(
        self,
        feed: FeedRecord,
        subscriptions: FeedSubscriptions,
        why: str,
        *changed: Callback,
        gone: tuple[Callback, ...] = (),
        read: Callback | None = None,
    ) -> bool:
        now = self._clock()
        said = {
            "to": subscriptions.to or None,
            "tries": str(subscriptions.tries) if subscriptions.tries else None,
            "next": f"{subscriptions.next:.3f}" if subscriptions.next else None,
        }
        health = health_of(subscriptions, feed, why, now)
        agreed = {**said, **callback_fields(*changed, gone=gone)}
        written = await self._store.write(feed.id, agreed, health, read=read)
        if written:
            await back_to_polling(self._schedule, feed, health, now)
        return written


def _says(feed: FeedRecord, health: Mapping[str, str | None]) -> bool:
    """Whether the record already has these values."""
    return all(feed.extra.get(name) == value for name, value in health.items())


async def back_to_polling(schedule: Schedule, feed: FeedRecord, health: Mapping[str, str | None], now: float) -> None:
    """Poll a feed at once if its deliveries were trusted, and no longer are."""
    if feed.extra.get("push") == "1" and health.get("push") is None and not feed.gone:
        await schedule.bump([(feed.id, feed.poll_host)], now)
