"""Workers create, renew and end subscriptions when they are due.

Each look at a feed starts from the state in Redis (`agreement.plan_push`), and may be repeated at any step. A callback
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
from microsub.websub.agreement import (
    Agreement,
    Callback,
    Wish,
    health_of,
    new_callback,
    pause_after,
    plan_push,
    wish_of,
    without,
)
from microsub.websub.store import callback_fields
from microsub.work import calendar_of

if TYPE_CHECKING:
    from microsub.feeds.queue import Schedule
    from microsub.feeds.record import FeedRecord, Feeds
    from microsub.redis.protocol import Redis
    from microsub.websub.hubs import HubAnswer, Hubs
    from microsub.websub.store import Agreements

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
        agreements: Agreements,
        hubs: Hubs | None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._feeds = feeds
        self._schedule = schedule
        self._agreements = agreements
        self._hubs = hubs
        self._clock = clock
        self._due = calendar_of(redis, DUE)

    async def polled(self, feed: FeedRecord, missed: int) -> None:
        """Note that a poll read `feed`, and found `missed` posts that its hub should have delivered."""
        if missed and feed.hub:
            WEBSUB_MISSED.inc(missed)
            await self._agreements.count(feed.hub, missed=missed)
        wish = wish_of(feed)
        if self._hubs is not None and feed.extra.get("push_to", "") != (str(wish) if wish else ""):
            await self._due.note({feed.id: self._clock()})

    async def visit(self, feed_id: str) -> float | None:
        """Do what is due for a feed; returns when to look again, None for never. Raises StoreError."""
        feed = await self._feeds.get(feed_id)
        if feed is None:
            return None
        agreement = await self._agreements.get(feed_id)
        wish = wish_of(feed) if self._hubs is not None and await self._feeds.subscribers(feed_id) else None
        now = self._clock()
        plan = plan_push(agreement, wish, now)
        if wish is None or agreement.to != str(wish):
            agreement = replace(agreement, to=str(wish or ""), tries=0, next=0.0)
        agreement = replace(agreement, callbacks=without(agreement, plan.over))
        why = feed.extra.get("push_why", "") if wish is not None else ""
        if plan.over or not _says(feed, health_of(agreement, feed, why, now)):
            await self._write(feed, agreement, why, gone=plan.over)
        for callback in plan.end:
            agreement = await self._end(feed, agreement, callback)
        look = plan.look
        if plan.ask and wish is not None:
            look = await self._ask(feed, agreement, wish)
        return None if look is None else min(look, now + _FARTHEST)

    async def look_at_all(self, now: float) -> None:
        """Plan work for each feed that names a hub or has a subscription, if nothing is planned."""
        ids = await self._feeds.all_ids()
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            there = set(await self._agreements.with_callbacks(batch))
            records = (await self._feeds.get_many(batch)).values()
            wanted = [one.id for one in records if one.id in there or (one.hub and self._hubs is not None)]
            await self._due.note(dict.fromkeys(wanted, now), "missing")

    async def run_forever(self, pace: RoundTiming = PACE) -> None:
        """Do what is due, repeatedly, until cancelled."""
        await run_periodically(self.visit_due, DUE, pace, BETWEEN_LOOKS)

    async def visit_due(self, now: float) -> int:
        """Do what is due; returns for how many feeds."""
        return await self._due.visit(now, self.visit, at_once=LOOKS_AT_ONCE)

    async def _ask(self, feed: FeedRecord, agreement: Agreement, wish: Wish) -> float:
        assert self._hubs is not None
        now = self._clock()
        callback = new_callback(wish, now)
        pause = pause_after(agreement.tries, agreement.effective(now), now)
        asked = replace(
            agreement, callbacks=(*agreement.callbacks, callback), tries=agreement.tries + 1, next=now + pause
        )
        if not await self._write(feed, asked, "waiting for the hub to verify the subscription", callback):
            return now + _PUT_OFF
        answer = await self._hubs.ask(feed.id, callback, "subscribe")
        if answer.accepted:
            await self._agreements.count(wish.hub, asked=1)
            log.info("a hub was asked for a subscription", feed=feed.id, hub=host_of(wish.hub))
            return asked.next
        return await self._refused(feed, callback, agreement, answer)

    async def _refused(self, feed: FeedRecord, callback: Callback, before: Agreement, answer: HubAnswer) -> float:
        """Forget a request that a hub refused; the earlier agreement stays."""
        now = self._clock()
        if answer.put_off:
            wait, tries = _PUT_OFF + (answer.retry_after or 0.0), before.tries
        else:
            least = _LASTING if answer.lasting else min(answer.retry_after or 0.0, _LASTING)
            wait = max(pause_after(before.tries, before.effective(now), now), least)
            tries = before.tries + 1
            await self._agreements.count(callback.hub, refused=1)
            log.info("a hub refused a subscription", feed=feed.id, hub=host_of(callback.hub), why=answer.why)
        left = replace(before, tries=tries, next=now + wait)
        # If the hub verified before its reply failed, it has accepted the callback.
        await self._write(feed, left, answer.why, gone=(callback,), read=callback)
        return now + wait

    async def _end(self, feed: FeedRecord, agreement: Agreement, callback: Callback) -> Agreement:
        """Ask a hub to end a subscription; deliveries are accepted until it verifies or the lease ends."""
        now = self._clock()
        ending = replace(callback, ending=now)
        callbacks = tuple(ending if one.token == callback.token else one for one in agreement.callbacks)
        after = replace(agreement, callbacks=callbacks)
        why = feed.extra.get("push_why", "")
        if not await self._agreements.write(
            feed.id, callback_fields(ending), health_of(after, feed, why, now), read=callback
        ):
            return agreement
        if self._hubs is not None:
            answer = await self._hubs.ask(feed.id, ending, "unsubscribe")
            log.info("a hub was asked to end a subscription", feed=feed.id, hub=host_of(callback.hub), why=answer.why)
        return after

    async def _write(
        self,
        feed: FeedRecord,
        agreement: Agreement,
        why: str,
        *changed: Callback,
        gone: tuple[Callback, ...] = (),
        read: Callback | None = None,
    ) -> bool:
        now = self._clock()
        said = {
            "to": agreement.to or None,
            "tries": str(agreement.tries) if agreement.tries else None,
            "next": f"{agreement.next:.3f}" if agreement.next else None,
        }
        health = health_of(agreement, feed, why, now)
        agreed = {**said, **callback_fields(*changed, gone=gone)}
        written = await self._agreements.write(feed.id, agreed, health, read=read)
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
