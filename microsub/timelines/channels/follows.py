"""The feeds that a channel follows: one hash per channel, feed id → JSON.

These hashes are authoritative; `feeds.record` keeps a derived set per feed. To follow a feed, a caller writes
here first; to unfollow it, the caller removes the channel from the derived set last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from heapq import nlargest
from typing import Any, TypeVar

import orjson

from microsub.accounts import absent
from microsub.base.bounded_cache import BoundedCache
from microsub.base.clock import DAY
from microsub.base.errors import InvalidRequest, QuotaReached
from microsub.model.reader import BUILT_IN, MOVE, SAVED, ChannelKey, FeedMove, Subscription, read_moves
from microsub.model.settings import NO_SETTINGS, Filters, FollowSettings, stated
from microsub.redis import keys
from microsub.redis.lease import first_value
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import fields as text_fields
from microsub.redis.replies import raw_fields, reading, text, texts
from microsub.redis.scripts import load

T = TypeVar("T")

_UNREAD = load("unread_list")
_ANY = 2**53
_FORMER_DAYS = 400
_MOST_FORMER = 1000
"""Maximum number of ids of former feeds per user; with one more, all are forgotten."""
_LOOKED_AT = 5
"""Number of channels that are checked first for a follow; usually one of them has one. Then twice as many."""
_MOST_USERS = 10_000
"""Users of whom a process remembers a channel that follows feeds."""


_NAMES, NEVER_NAMED = "names", b"0"
"""The field of a user's record, and its value while the user has never named a feed."""


class Follows:
    """The follows of all channels.

    Every method with a `uid` raises NotFound for an unknown channel, unless its docstring differs.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._following: BoundedCache[str, str] = BoundedCache(_MOST_USERS)

    async def follow(
        self,
        user: str,
        uid: str,
        feed_id: str,
        url: str,
        now: float,
        name: str | None = None,
        *,
        settings: FollowSettings = NO_SETTINGS,
        most: int = 0,
        unread_from: float | None = None,
    ) -> bool:
        """Make the channel follow a feed; False if it does already, which changes nothing.

        `unread_from` is the score below which items are added as read; None leaves it to the first fill.

        Raises QuotaReached if the user's channels already follow `most` feeds (0: any number), and InvalidRequest for
        `saved`, which can't follow feeds.

        To miss no post, callers do this; then `Adder.add` of the stored posts, in one call; then `Feeds.subscribe`,
        from which on delivery adds posts; then `Adder.add` of the stored posts again.
        """
        refuse_saved(uid)
        value = write_subscription(Subscription(feed_id, url, now, name, settings=settings))
        pattern = keys.pattern(keys.channel_feeds, user)
        since = "" if unread_from is None else f"{unread_from:.6f}"
        changed = await self._write(user, uid, feed_id, "follow", value, most, pattern, since)
        if changed > 1:
            raise QuotaReached("feeds", changed - 2, most)
        return bool(changed)

    async def unfollow(self, user: str, uid: str, feed_id: str) -> bool:
        """End a follow; False if there was none. Then `remove.take_out_feed` removes the unread items."""
        return bool(await self._write(user, uid, feed_id, "unfollow"))

    async def note_unfinished(self, user: str, uid: str, feed_id: str, now: float) -> None:
        """Note that the feed's unread items must still leave the channel, until `moved`, or until it is followed again.

        The note is a move of the items to the channel itself.
        """
        await self._write(user, uid, feed_id, "unfinished", f"{uid} {now:.3f}")

    async def followed_on(self, user: str, now: float, more: int = 0) -> int:
        """The number of feeds newly followed in apps on the day of `now`, after adding `more`."""
        key = keys.follows(user, str(int(now // DAY)))
        if not more:
            return int(await self._redis.command("GET", key) or 0)
        count, _ = await self._redis.pipeline([("INCRBY", key, more), ("EXPIRE", key, 2 * DAY)])
        return int(count)

    async def move_subscription(self, user: str, move: FeedMove) -> None:
        """Make another channel follow a feed in place of the former one.

        Raises NotFound for the other channel, and InvalidRequest if it is `saved`. The same step notes that the
        feed's items must follow, until `moved`, or until the former channel follows the feed again.
        """
        refuse_saved(move.target)
        target, note = move.target, f"{move.target} {move.begun:.3f}"
        other = [keys.channel(user, target), keys.channel_feeds(user, target)]
        await self._write(user, move.source, move.feed, "move", target, note, other=other, missing=target)

    async def moves(self, user: str) -> list[FeedMove]:
        """The unfinished moves of feeds between channels."""
        return read_moves(text_fields(await self._redis.command("HGETALL", keys.user(user))))

    async def moved(self, user: str, move: FeedMove) -> None:
        """Note that a move has finished."""
        await self._redis.command("HDEL", keys.user(user), f"{MOVE} {move.feed} {move.source}")

    async def current_feed(self, user: str, feed_id: str) -> str | None:
        """The feed that replaced one that the user followed; None if it wasn't replaced.

        A feed is replaced if it was a page or has moved.
        """
        found: bytes | None = await self._redis.command("HGET", keys.former_feeds(user), feed_id)
        return text(found)

    async def number_of_names(self, user: str) -> bytes:
        """The number that changes with the user's own names for feeds (`PageRows.own_names`)."""
        return await self._redis.command("HGET", keys.user(user), _NAMES) or b""

    async def note_without_names(self, user: str) -> None:
        """Note that the user has never named a feed, unless a name was given meanwhile."""
        await self._redis.script(
            load("compare_and_set")(record=keys.user(user), user=keys.user(user), fields=(_NAMES, "", NEVER_NAMED))
        )

    async def automatic_since(self) -> float:
        """The Unix time from which on full texts are automatic for newly followed feeds: of the first call of all."""
        return float(await first_value(self._redis, keys.articles(), lambda: f"{time.time():.3f}"))

    async def of_feed(self, feed_id: str, places: Sequence[ChannelKey]) -> list[tuple[str, Subscription]]:
        """The follows of that feed by those of these channels that follow it, each with its user. One round trip."""
        held = [keys.channel_feeds(user, uid) for user, uid in places]
        replies = await self._redis.pipeline([("HGET", key, feed_id) for key in held])
        found = zip(places, held, replies, strict=True)
        return [(user, read_subscription(key, feed_id, value)) for (user, _), key, value in found if value is not None]

    async def former_feeds(self, user: str) -> dict[str, str]:
        """The feeds that were replaced, and the feed that replaced each."""
        return text_fields(await self._redis.command("HGETALL", keys.former_feeds(user)))

    async def subscriptions(self, user: str, uid: str) -> list[Subscription]:
        """The channel's follows, oldest first. One round trip."""
        known, found = await self._redis.pipeline(
            [is_there(user, uid), ("HGETALL", keys.channel_feeds(user, uid))],
        )
        await self._require(user, uid, known)
        return _read_all(user, uid, found)

    async def subscriptions_and_unread(self, user: str, uid: str, most: int) -> tuple[list[Subscription], list[str]]:
        """The channel's follows, oldest first, and its unread items that were stored last. One round trip."""
        (known, found), (ids,) = await asyncio.gather(
            self._redis.pipeline([is_there(user, uid), ("HGETALL", keys.channel_feeds(user, uid))]),
            unread_ids(self._redis, [(user, uid)]),
        )
        await self._require(user, uid, known)
        return _read_all(user, uid, found), nlargest(most, ids, key=int)

    async def subscription(self, user: str, uid: str, feed_id: str) -> Subscription | None:
        """The channel's follow of that feed, or None. One round trip."""
        key = keys.channel_feeds(user, uid)
        known, value = await self._redis.pipeline([is_there(user, uid), ("HGET", key, feed_id)])
        await self._require(user, uid, known)
        return read_subscription(key, feed_id, value) if value is not None else None

    async def count_feeds(self, user: str) -> int:
        """The number of feeds that the user's channels follow, counted per channel, without removed channels."""
        uids = texts(await self._redis.command("ZRANGE", keys.channels(user), 0, -1))
        return sum((await self.feed_counts(user, uids)).values())

    async def feed_counts(self, user: str, uids: Sequence[str]) -> dict[str, int]:
        """The number of feeds that each of these channels follows. One round trip."""
        counts = await self._redis.pipeline([("HLEN", keys.channel_feeds(user, uid)) for uid in uids])
        return dict(zip(uids, counts, strict=True))

    async def follows_anything(self, user: str) -> bool:
        """Whether a channel that the user created follows a feed. One round trip if the last one found still does."""
        if (known := self._following.get(user)) is not None:
            stands, follows = await self._redis.pipeline(
                [("ZSCORE", keys.channels(user), known), ("EXISTS", keys.channel_feeds(user, known))]
            )
            if stands is not None and follows:
                return True
        first, size = 0, _LOOKED_AT
        while uids := texts(await self._redis.command("ZRANGE", keys.channels(user), first, first + size - 1)):
            own = [uid for uid in uids if uid not in BUILT_IN]
            follow = await self._redis.pipeline([("EXISTS", keys.channel_feeds(user, uid)) for uid in own])
            if (found := next((uid for uid, follows in zip(own, follow, strict=True) if follows), None)) is not None:
                self._following[user] = found
                return True
            first, size = first + size, 2 * size
        return False

    async def all_subscriptions(self, user: str) -> dict[str, list[Subscription]]:
        """The follows of all channels by uid, in the channels' order; removed channels are left out."""
        return await self.subscriptions_of(user, texts(await self._redis.command("ZRANGE", keys.channels(user), 0, -1)))

    async def subscriptions_of(self, user: str, uids: Sequence[str]) -> dict[str, list[Subscription]]:
        """The follows of these channels by uid, none for an unknown one. One round trip."""
        replies = await self._redis.pipeline([("HGETALL", keys.channel_feeds(user, uid)) for uid in uids])
        return {uid: _read_all(user, uid, reply) for uid, reply in zip(uids, replies, strict=True)}

    async def followed_feeds(self, user: str) -> dict[str, Subscription]:
        """The followed feeds by id, each once; removed channels are left out."""
        everywhere = await self.all_subscriptions(user)
        return {one.feed: one for subscriptions in everywhere.values() for one in subscriptions}

    async def follows(self, user: str, uid: str, feed_id: str) -> bool:
        """Whether the channel receives the feed's posts.

        That is, it follows the feed, is not removed, and its user is not disabled. False for an unknown channel.
        """
        (name, removed), subscription, disabled = await self._redis.pipeline(
            [
                is_there(user, uid),
                ("HEXISTS", keys.channel_feeds(user, uid), feed_id),
                ("HEXISTS", keys.user(user), "disabled"),
            ]
        )
        return name is not None and removed is None and bool(subscription) and not disabled

    async def update_subscription(
        self,
        user: str,
        uid: str,
        feed_id: str,
        *,
        name: str | None = None,
        settings: FollowSettings | None = None,
        former: FollowSettings | None = None,
        new_feed: str | None = None,
        url: str | None = None,
    ) -> Subscription | None:
        """Change the user's name ('' deletes it) or settings for a follow, or its feed when that has moved.

        `url` is the address from which that one is followed, by default the former one.

        If `settings` were made from `former` ones, only those that differ are changed, so that two changes at once
        don't undo each other. Returns the follow, or None if there is none.
        """
        while True:
            old = await self._redis.command("HGET", keys.channel_feeds(user, uid), feed_id)
            if old is None:
                return None
            new = read_subscription(keys.channel_feeds(user, uid), feed_id, old)
            if name is not None:
                new = replace(new, name=name or None)
            if settings is not None:
                new = replace(new, settings=settings if former is None else new.settings.changed(former, settings))
            if new_feed:
                new = replace(new, feed=new_feed, first_feed=new.id, url=url or new.url)
            values = (write_subscription(new), old, new.feed, _FORMER_DAYS * DAY, _MOST_FORMER)
            if await self._write(user, uid, feed_id, "change", *values, other=[keys.former_feeds(user)]):
                return new

    async def _require(self, user: str, uid: str, known: list[bytes | None]) -> None:
        name, removed = known
        if name is None or removed is not None:
            raise await absent(self._redis, user, uid)

    async def _write(
        self,
        user: str,
        uid: str,
        feed_id: str,
        action: str,
        *values: Arg,
        other: Sequence[str] = (),
        missing: str = "",
    ) -> int:
        changed: int = await self._redis.script(
            load("subscription_write")(user, uid, other=other, uid=uid, feed=feed_id, action=action, rest=values)
        )
        if changed < 0:
            raise await absent(self._redis, user, missing or uid)
        return changed


def refuse_saved(uid: str) -> None:
    """Raise InvalidRequest if the channel is `saved`, which can't follow feeds."""
    if uid == SAVED:
        raise InvalidRequest("the channel 'saved' can't follow feeds: it holds saved posts, expected another channel")


async def subscriptions(redis: Redis, user: str) -> set[str]:
    """Ids of the feeds that the user's channels follow, removed channels included."""
    uids = await every_channel(redis, user)
    replies = await redis.pipeline([("HKEYS", keys.channel_feeds(user, uid)) for uid in uids])
    return {text(feed) for reply in replies for feed in reply}


async def every_channel(redis: Redis, user: str) -> list[str]:
    """The uids of the user's channels, and of removed ones, which can come back."""
    lists = await redis.pipeline([("ZRANGE", key, 0, -1) for key in (keys.channels(user), keys.removed_channels(user))])
    return [text(uid) for reply in lists for uid in reply]


async def unread_ids(redis: Redis, places: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The unread items of each of these channels (user and uid), in no certain order. One round trip."""
    return [ids for ids in await few_unread(redis, places, _ANY) if not isinstance(ids, int)]


async def few_unread(redis: Redis, places: Iterable[tuple[str, str]], most: int) -> list[list[str] | int]:
    """The same, but their number for a channel with more than `most`: all of them in a reply would delay others."""
    replies = await redis.scripts([_UNREAD(*place, most=most) for place in places])
    return [ids if isinstance(ids, int) else texts(ids) for ids in replies]


async def in_turns(parts: Iterable[T], size: int = 100) -> AsyncIterator[T]:
    """The parts, with a pause for other tasks after every `size`: a user may follow thousands of feeds."""
    for number, part in enumerate(parts, 1):
        yield part
        if number % size == 0:
            await asyncio.sleep(0)


def is_there(user: str, uid: str) -> tuple[Arg, ...]:
    """The command that checks that a channel exists and isn't removed."""
    return ("HMGET", keys.channel(user, uid), "name", "removed")


def write_subscription(subscription: Subscription) -> bytes:
    """The subscription as stored, for `read_subscription`."""
    value: dict[str, Any] = {"url": subscription.url, "followed_at": subscription.followed_at}
    if subscription.name:
        value["name"] = subscription.name
    if subscription.first_feed:
        value["first_feed"] = subscription.first_feed
    if subscription.settings:
        value["settings"] = _settings_text(subscription.settings)
    return orjson.dumps(value)


def _settings_text(settings: FollowSettings) -> dict[str, Any]:
    """The settings that differ from their defaults; the filter as text, which scripts compare."""
    own = stated(settings)
    return own | ({"filter": settings.filter.stored()} if settings.filter else {})


def _settings_of(found: Mapping[str, Any]) -> FollowSettings:
    """The settings as written by `_settings_text`; unknown ones are left out."""
    known = {one.name: found[one.name] for one in fields(FollowSettings) if one.name in found}
    if text := known.get("filter"):
        known["filter"] = Filters.read(text)
    return FollowSettings(**known)


def read_subscription(key: str, feed_id: str, value: bytes) -> Subscription:
    """Read a subscription stored under `key`. Raises StoreDamaged."""
    with reading(f"{key} {feed_id}"):
        found = orjson.loads(value)
        settings = _settings_of(found["settings"]) if "settings" in found else NO_SETTINGS
        own = (found.get("name"), found.get("first_feed"), settings)
        return Subscription(feed_id, found["url"], found["followed_at"], *own)


def _read_all(user: str, uid: str, reply: list[bytes]) -> list[Subscription]:
    """Oldest first."""
    key = keys.channel_feeds(user, uid)
    found = [read_subscription(key, feed, value) for feed, value in raw_fields(reply).items()]
    return sorted(found, key=lambda one: (one.followed_at, int(one.feed)))
