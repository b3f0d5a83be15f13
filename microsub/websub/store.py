"""Subscriptions at hubs, in Redis: by feed, and counts by hub."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from microsub.base.urls import host_of
from microsub.feeds import KEEP_UNFOLLOWED, FeedRecord, Feeds, PushHealth, push_health, set_or_deleted
from microsub.model.moments import number
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.redis.replies import fields, reading, texts
from microsub.redis.scripts import load
from microsub.websub.subscriptions import Callback, FeedSubscriptions
from microsub.work import Stream

if TYPE_CHECKING:
    from microsub.feeds import PushState

_WRITE, _DELIVERED = load("websub_write"), load("websub_delivered")

_CALLBACK = "callback "
"""The name of a callback's field: this, then its token."""

SEEN = 50
"""Deliveries of a feed whose bodies are recognised if they are sent again."""

COUNTS_KEPT = 90 * 86_400

_WITHOUT_CONTACT = frozenset({"refused", "missed"})
"""Counts of a hub that need no request from it."""

LATE_DELIVERY = 60.0
SILENCE = 3600.0
"""Seconds that a delivery may wait for a worker, and that all hubs may stay silent after a request to one."""


class SubscriptionStore:
    """Subscriptions by feed, each in the feed's own slot, and the counts of hubs."""

    def __init__(self, redis: Redis, *, clock: Callable[[], float] = time.time) -> None:
        self._redis = redis
        self._clock = clock

    async def get(self, feed_id: str) -> FeedSubscriptions:
        """The subscriptions of a feed; empty if there are none."""
        key = keys.feed_websub(feed_id)
        found = fields(await self._redis.command("HGETALL", key))
        with reading(key):
            callbacks = tuple(
                Callback.of(name.removeprefix(_CALLBACK), value)
                for name, value in found.items()
                if name.startswith(_CALLBACK)
            )
            times = {name: number(found.get(name)) or 0.0 for name in ("next", "spent")}
            return FeedSubscriptions(callbacks, found.get("to", ""), int(found.get("tries", "0")), **times)

    async def write(
        self,
        feed_id: str,
        agreed: Mapping[str, str | None],
        health: Mapping[str, str | None],
        *,
        read: Callback | None = None,
    ) -> bool:
        """Set fields of the subscriptions and of the feed's record; None deletes a field.

        False, without a change, if the feed is gone or the callback has changed since it was `read`.
        """
        expected = {} if read is None else {"field": _CALLBACK + read.token, "value": read.to_json()}
        call = _WRITE(
            feed_id,
            life=KEEP_UNFOLLOWED,
            **expected,
            count=len(agreed),
            fields=[*set_or_deleted(agreed), *set_or_deleted(health)],
        )
        return bool(await self._redis.script(call))

    async def has_seen(self, feed_id: str, digest: str) -> bool:
        """Whether a delivery with that digest was processed recently."""
        seen = await self._redis.command("HGET", keys.feed_websub(feed_id), "seen")
        return digest.encode() in (seen or b"").split()

    async def delivered(self, feed_id: str, digest: str, new: int, spent: float, record: Mapping[str, str]) -> bool:
        """Record a delivery with `new` posts, and fields of the feed's record; False if it was recorded before.

        `spent`: until when processor time is spent (Unix time).
        """
        flat = [part for pair in record.items() for part in pair]
        call = _DELIVERED(feed_id, digest=digest, seen=SEEN, new=new, spent=f"{spent:.3f}", fields=flat)
        return bool(await self._redis.script(call))

    async def with_callbacks(self, feed_ids: list[str]) -> list[str]:
        """The feeds that have subscriptions. One round trip."""
        found = await self._redis.pipeline([("EXISTS", keys.feed_websub(feed_id)) for feed_id in feed_ids])
        return [feed_id for feed_id, there in zip(feed_ids, found, strict=True) if there]

    async def count(self, hub: str, **more: int) -> None:
        """Add to a hub's counts: asked, verified, denied, refused, delivered, forged, posts, missed."""
        key = keys.hub_counts(host_of(hub))
        commands: list[Command] = [("HINCRBY", key, what, count) for what, count in more.items() if count]
        commands.append(("EXPIRE", key, COUNTS_KEPT))
        if not more.keys() <= _WITHOUT_CONTACT:
            side = "asked" if "asked" in more else "heard"
            commands.append(("HSET", keys.hub_contact(), side, f"{self._clock():.3f}"))
        await self._redis.pipeline(commands)

    async def counts(self, hubs: list[str]) -> dict[str, dict[str, int]]:
        """The counts of hubs, by host. One round trip."""
        hosts = list(dict.fromkeys(map(host_of, hubs)))
        rows = await self._redis.pipeline([("HGETALL", keys.hub_counts(host)) for host in hosts])
        return {
            host: dict(zip(texts(row[0::2]), map(int, row[1::2]), strict=True))
            for host, row in zip(hosts, rows, strict=True)
        }


def callback_fields(*changed: Callback, gone: tuple[Callback, ...] = ()) -> dict[str, str | None]:
    """The fields that store these callbacks; None for callbacks that are `gone`."""
    found: dict[str, str | None] = {_CALLBACK + one.token: None for one in gone}
    return found | {_CALLBACK + one.token: one.to_json() for one in changed}


async def push_state(redis: Redis, now: float) -> PushState:
    """Whether deliveries arrive. Raises StoreError.

    `late`: one has waited long for a worker; `silent`: since the last request to a hub, none has reached a callback.
    """
    waiting = await Stream(redis, "pushed").oldest_time()
    if waiting is not None and now - waiting > LATE_DELIVERY:
        return "late"
    asked, heard = map(number, await redis.command("HMGET", keys.hub_contact(), "asked", "heard"))
    return "silent" if asked is not None and (heard or 0.0) < asked < now - SILENCE else "ok"


async def status_of(
    feeds: Feeds, subscription_store: SubscriptionStore, now: float, only: str | None = None
) -> tuple[list[tuple[FeedRecord, PushHealth]], Mapping[str, Mapping[str, int]]]:
    """The followed feeds that name a hub, or `only` the feed with that id, with their health.

    Also the counts of the last months of each hub, by host.
    """
    found = (await feeds.get_many(await feeds.all_ids() if only is None else [only])).values()
    followed = [one for one in found if one.id == only or (one.hub and await feeds.subscribers(one.id))]
    counts = await subscription_store.counts([one.hub for one in followed if one.hub])
    return [(one, push_health(one, now)) for one in followed], counts
