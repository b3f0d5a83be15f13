"""Which feeds a channel follows: one hash per channel, feed id → JSON. Callers use
`timelines.store.channels.Channels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from microsub.errors import QuotaReached
from microsub.identity.store.absent import absent
from microsub.model.reader import Subscription
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import raw_fields, reading, text, texts
from microsub.redis.scripts import load

MOVE = "move"
"""How the fields of a user's record begin that note moves of feeds: `move <feed> <uid it leaves>` → `<uid> <time>`."""

_FORMER_DAYS = 400
_MOST_FORMER = 1000
"""How many ids of former feeds a user may have; with one more, all are forgotten."""


@dataclass(frozen=True, slots=True)
class FeedMove:
    """A feed's items are on their way from one channel to another; `begun` is the Unix time of the move's beginning."""

    feed: str
    source: str
    target: str
    begun: float


def read_moves(record: Mapping[str, str]) -> list[FeedMove]:
    """The moves that a user's record notes."""
    found = [(name.split(" "), value.split(" ")) for name, value in record.items() if name.startswith(f"{MOVE} ")]
    return [FeedMove(feed, source, target, float(begun)) for (_, feed, source), (target, begun) in found]


class Subscriptions:
    """The subscriptions of all channels; the methods are described in `Channels`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def follow(self, user: str, uid: str, subscription: Subscription, most: int = 0) -> bool:
        """See `Channels.follow`."""
        value, now = _encode(subscription), subscription.followed_at
        limit: tuple[Arg, ...] = ("", most, keys.pattern(keys.channel_feeds, user)) if most else ()
        changed = await self._write(user, uid, subscription.feed, "follow", value, now, *limit)
        if changed > 1:
            raise QuotaReached("feeds", changed - 2, most)
        return bool(changed)

    async def unfollow(self, user: str, uid: str, feed_id: str) -> bool:
        """See `Channels.unfollow`."""
        return bool(await self._write(user, uid, feed_id, "unfollow", ""))

    async def move(self, user: str, move: FeedMove, followed_at: float) -> bool:
        """See `Channels.move_subscription`."""
        channels = [
            key(user, uid) for uid in (move.source, move.target) for key in (keys.channel_feeds, keys.channel_unfilled)
        ]
        note = f"{move.target} {move.begun:.3f}"
        changed = await self._redis.script(
            load("subscription_move"),
            [keys.channels(user), *channels, keys.user(user)],
            [move.source, move.target, move.feed, followed_at, note],
        )
        if changed < 0:
            raise await absent(self._redis, user, move.target)
        return bool(changed)

    async def moves(self, user: str) -> list[FeedMove]:
        """See `Channels.moves`."""
        flat = await self._redis.command("HGETALL", keys.user(user))
        found = zip(flat[0::2], flat[1::2], strict=True)
        return read_moves({text(name): text(value) for name, value in found})

    async def current(self, user: str, feed_id: str) -> str | None:
        """See `Channels.current_feed`."""
        found = await self._redis.command("HGET", keys.former_feeds(user), feed_id)
        return text(found) if found is not None else None

    async def moved(self, user: str, move: FeedMove) -> None:
        """See `Channels.moved`."""
        await self._redis.command("HDEL", keys.user(user), f"{MOVE} {move.feed} {move.source}")

    async def of(self, user: str, uid: str) -> list[Subscription]:
        """The subscriptions of one channel, oldest first."""
        return _read_all(user, uid, await self._redis.command("HGETALL", keys.channel_feeds(user, uid)))

    async def one(self, user: str, uid: str, feed_id: str) -> Subscription | None:
        """See `Channels.subscription`."""
        value = await self._redis.command("HGET", keys.channel_feeds(user, uid), feed_id)
        return read_subscription(keys.channel_feeds(user, uid), feed_id, value) if value is not None else None

    async def count(self, user: str) -> int:
        """See `Channels.count_feeds`."""
        uids = texts(await self._redis.command("ZRANGE", keys.channels(user), 0, -1))
        return sum(await self._redis.pipeline([("HLEN", keys.channel_feeds(user, uid)) for uid in uids]))

    async def all(self, user: str) -> dict[str, list[Subscription]]:
        """See `Channels.all_subscriptions`."""
        uids = texts(await self._redis.command("ZRANGE", keys.channels(user), 0, -1))
        replies = await self._redis.pipeline([("HGETALL", keys.channel_feeds(user, uid)) for uid in uids])
        return {uid: _read_all(user, uid, reply) for uid, reply in zip(uids, replies, strict=True)}

    async def update(
        self, user: str, uid: str, feed_id: str, *, url: str | None, name: str | None, new_feed: str | None
    ) -> Subscription | None:
        """See `Channels.update_subscription`."""
        while True:
            old = await self._redis.command("HGET", keys.channel_feeds(user, uid), feed_id)
            if old is None:
                return None
            new = read_subscription(keys.channel_feeds(user, uid), feed_id, old)
            if url is not None:
                new = replace(new, url=url)
            if name is not None:
                new = replace(new, name=name or None)
            if new_feed is not None:
                new = replace(new, feed=new_feed)
            origin = feed_id if new.feed != feed_id else ""
            if await self._write(
                user, uid, new.feed, "change", _encode(new), old, origin, _FORMER_DAYS * 86400, _MOST_FORMER
            ):
                return new

    async def _write(self, user: str, uid: str, feed_id: str, action: str, *values: Arg) -> int:
        padded = [*values, *[""] * (3 - len(values))]
        of_channel = keys.channel_feeds(user, uid), keys.channel_unfilled(user, uid)
        changed: int = await self._redis.script(
            load("subscription_write"),
            [keys.channels(user), *of_channel, keys.user(user), keys.former_feeds(user)],
            [uid, feed_id, action, *padded],
        )
        if changed < 0:
            raise await absent(self._redis, user, uid)
        return changed


def _encode(subscription: Subscription) -> bytes:
    value: dict[str, Any] = {"url": subscription.url, "followed_at": subscription.followed_at}
    if subscription.name:
        value["name"] = subscription.name
    return orjson.dumps(value)


def read_subscription(key: str, feed_id: str, value: bytes) -> Subscription:
    """A subscription that stands under `key`, read back. Raises StoreDamaged."""
    with reading(f"{key} {feed_id}"):
        found = orjson.loads(value)
        return Subscription(feed_id, found["url"], found["followed_at"], found.get("name"))


def _read_all(user: str, uid: str, reply: list[bytes]) -> list[Subscription]:
    """Oldest first."""
    key = keys.channel_feeds(user, uid)
    found = [read_subscription(key, feed, value) for feed, value in raw_fields(reply).items()]
    return sorted(found, key=lambda one: (one.followed_at, int(one.feed)))
