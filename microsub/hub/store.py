"""Subscriptions at the hub, its planned work, and the addresses of channels' topics, in Redis.

Subscriptions are stored with the owner of their topic, `user <name>` or `feed <id>`, so they are deleted with a user.
Work is in one calendar: an owner whose topics may have changed, or one subscription with something to verify or
deliver. All times are Unix seconds.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from microsub.accounts import absent
from microsub.base.digests import new_secret
from microsub.base.errors import StoreUnavailable
from microsub.base.urls import host_of
from microsub.hub.subscriptions import HubSubscription, SubscriptionRequest
from microsub.model.reader import ChannelKey
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.redis.replies import fields, reading, text, texts
from microsub.redis.scripts import BATCH, batches, load
from microsub.work import Calendar

KEPT = 15 * 86_400
"""Seconds that subscriptions are kept after a request or verification: a day longer than any lease."""
TALLIES_KEPT, UNVERIFIED_KEPT = 90 * 86_400, 3_600
"""Seconds that counts of a host are kept; shorter for hosts that strangers name and nobody confirms."""

MOST_OF_OWNER = 5_000
MOST_OF_TOPIC = 1_000
MOST_OF_TOPIC_ON_HOST = 100
MOST_ON_HOST = 5_000
"""Subscriptions of one user or stored feed, of one topic, of one topic on one callback host, of one host in total."""

PATH = "/topics"
_CHANNEL = re.compile(r"/channels/([A-Za-z0-9_-]{1,64})/([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9_-]{43})\.json")

NEWEST = 50
"""Items in a document of a channel or a stored feed."""

WINDOW = 0.1
"""Seconds in which changes of an owner's topics are combined."""

CLAIM = 30.0
"""Seconds after which another worker takes over work without a heartbeat."""

LIMITS = {
    "owner": f"the limit of {MOST_OF_OWNER} subscriptions to topics of this kind is reached",
    "topic": f"the limit of {MOST_OF_TOPIC} subscriptions to this topic is reached",
    "host": f"the limit of {MOST_OF_TOPIC_ON_HOST} subscriptions of this callback host to this topic is reached",
}


@dataclass(frozen=True, slots=True)
class KnownSubscription:
    """A stored subscription: the verified one, the pending request, and both as they were read."""

    owner: str
    id: str
    held: HubSubscription | None
    asked: SubscriptionRequest | None
    raw: tuple[str, str]

    @property
    def member(self) -> str:
        """The subscription's name among the planned work."""
        return f"{self.owner} {self.id}"


class HubStore:
    """Subscriptions by owner, and counts by callback host."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def ask(self, owner: str, request: SubscriptionRequest, now: float) -> str | None:
        """Store a request until it is verified; returns None, or the reached limit, in words."""
        live = ("ZCOUNT", keys.hub_callbacks(host_of(request.callback)), f"({now:.3f}", "+inf")
        if request.mode == "subscribe" and await self._redis.command(*live) >= MOST_ON_HOST:
            return f"the limit of {MOST_ON_HOST} subscriptions of this callback host is reached"
        call = load("hub_ask")(
            subscriptions=_key(owner),
            subscription=request.id,
            request=request.to_json(),
            life=KEPT,
            of_owner=MOST_OF_OWNER,
            of_topic=MOST_OF_TOPIC,
            of_topic_on_host=MOST_OF_TOPIC_ON_HOST,
        )
        limit = text(await self._redis.script(call))
        if limit:
            return LIMITS[limit]
        await self._redis.command("SADD", keys.hub_owners(), owner)
        return None

    async def get(self, owner: str, subscription: str) -> KnownSubscription:
        """The stored state of a subscription, which may be empty."""
        held, asked = await self._redis.command("HMGET", _key(owner), f"sub {subscription}", f"ask {subscription}")
        return _known(owner, subscription, text(held) or "", text(asked) or "")

    async def all_of(self, owner: str) -> list[KnownSubscription]:
        """The stored state of all an owner's subscriptions."""
        found = fields(await self._redis.command("HGETALL", _key(owner)))
        ids = dict.fromkeys(name.partition(" ")[2] for name in found)
        return [_known(owner, one, found.get(f"sub {one}", ""), found.get(f"ask {one}", "")) for one in ids]

    async def write(
        self, known: KnownSubscription, held: HubSubscription | None, asked: SubscriptionRequest | None, now: float
    ) -> bool:
        """Replace a subscription and its request, None deletes; False if they changed since they were read."""
        change = [f"sub {known.id}", known.raw[0], held.to_json() if held else ""]
        change += [f"ask {known.id}", known.raw[1], asked.to_json() if asked else ""]
        if not await self._redis.script(load("compare_and_set")(record=_key(known.owner), fields=change)):
            return False
        before = held or known.held
        is_same = held is not None and known.held is not None and held.until == known.held.until
        if before is not None and not is_same:
            await self._list(known, before.callback, held, now)
        return True

    async def _list(self, known: KnownSubscription, callback: str, held: HubSubscription | None, now: float) -> None:
        """List a subscription by its callback's host and its owner, or remove it."""
        key = keys.hub_callbacks(host_of(callback))
        change: Command = ("ZREM", key, known.member)
        if held is not None:
            change = ("ZADD", key, f"{held.until:.3f}", known.member)
            await self._redis.command("SADD", keys.hub_owners(), known.owner)
        over = ("ZREMRANGEBYSCORE", key, "-inf", f"{now:.3f}")
        kept: list[Command] = [("EXPIRE", one, KEPT) for one in (key, _key(known.owner))]
        await self._redis.pipeline([change, over, *kept])

    async def among_owners(self, owners: Sequence[str]) -> list[str]:
        """The owners whose topics have subscribers."""
        found: list[str] = []
        for some in batches(owners, BATCH):
            flags = await self._redis.command("SMISMEMBER", keys.hub_owners(), *some)
            found += [owner for owner, flag in zip(some, flags, strict=True) if flag]
        return found

    async def owners(self) -> list[str]:
        """All owners whose topics have subscribers; owners without any are forgotten."""
        known = sorted(texts(await self._redis.command("SMEMBERS", keys.hub_owners())))
        there = await self._redis.pipeline([("EXISTS", _key(owner)) for owner in known])
        for owner in [owner for owner, flag in zip(known, there, strict=True) if not flag]:
            await self._redis.command("SREM", keys.hub_owners(), owner)
            if await self._redis.command("EXISTS", _key(owner)):  # somebody has subscribed in between
                await self._redis.command("SADD", keys.hub_owners(), owner)
        return [owner for owner, flag in zip(known, there, strict=True) if flag]

    async def count(self, callback: str, what: str) -> None:
        """Add to the counts of the callback's host (`keys.hub_tallies`)."""
        key = keys.hub_tallies(host_of(callback))
        left, _ = await self._redis.pipeline([("TTL", key), ("HINCRBY", key, what, 1)])
        await self._redis.command("EXPIRE", key, max(left, UNVERIFIED_KEPT if what == "unverified" else TALLIES_KEPT))

    async def tallies(self, hosts: Sequence[str]) -> dict[str, dict[str, int]]:
        """The counts of callback hosts. One round trip."""
        rows = await self._redis.pipeline([("HGETALL", keys.hub_tallies(host)) for host in hosts])
        counted = ({name: int(count) for name, count in fields(row).items()} for row in rows)
        return dict(zip(hosts, counted, strict=True))


def _key(owner: str) -> str:
    kind, _, name = owner.partition(" ")
    return keys.hub_of_user(name) if kind == "user" else keys.hub_of_feed(name)


def _known(owner: str, subscription: str, held: str, asked: str) -> KnownSubscription:
    with reading(f"{_key(owner)} {subscription}"):
        return KnownSubscription(
            owner,
            subscription,
            HubSubscription.of(held) if held else None,
            SubscriptionRequest.of(asked) if asked else None,
            (held, asked),
        )


def hub_calendar(redis: Redis) -> Calendar:
    """The planned work."""
    return Calendar(redis, [(keys.hub_due(), keys.hub_claims())])


class TopicChanges:
    """The rest of the server reports here that topics may have changed."""

    def __init__(self, redis: Redis) -> None:
        self._store = HubStore(redis)
        self._work = hub_calendar(redis)

    async def note(self, users: Iterable[str], feeds: Iterable[str], now: float) -> bool:
        """Note arrivals for these users, or of these feeds; returns whether any topic is known to have subscribers.

        A note is a hint: if its master of a cluster is away, the hub finds the change when it looks at all topics.
        """
        owners = [*(f"user {name}" for name in dict.fromkeys(users)), *(f"feed {feed_id}" for feed_id in feeds)]
        found: list[str] = []
        with suppress(StoreUnavailable):
            found = await self._store.among_owners(owners)
            if found:
                await self._work.note(dict.fromkeys(found, now + WINDOW), "more")
        return bool(found)


@dataclass(frozen=True, slots=True)
class CallbackHealth:
    """Callbacks on one host: live subscriptions, and the counts of the last months."""

    subscriptions: int
    failing: int
    counts: Mapping[str, int]


async def hub_status(redis: Redis, now: float) -> dict[str, CallbackHealth]:
    """The health of callbacks by host, for hosts with a live subscription."""
    store = HubStore(redis)
    live: dict[str, list[HubSubscription]] = {}
    for owner in await store.owners():
        for one in await store.all_of(owner):
            if one.held is not None and now < one.held.until:
                live.setdefault(host_of(one.held.callback), []).append(one.held)
    counts = await store.tallies(list(live))
    return {
        host: CallbackHealth(len(of), sum(one.tries > 0 for one in of), counts[host])
        for host, of in sorted(live.items())
    }


@dataclass(frozen=True, slots=True)
class PostsTopic:
    """The newest posts of a `channel`, or of a stored `feed`; `address` is that of the topic."""

    address: str
    title: str
    home: str
    channel: ChannelKey | None = None
    feed: str = ""

    @property
    def owner(self) -> str:
        """The owner of its subscriptions."""
        return f"feed {self.feed}" if self.channel is None else f"user {self.channel[0]}"

    @property
    def source(self) -> str:
        """The source of its version."""
        return self.address


class ChannelTopics:
    """The addresses of channels' topics, on the server at `base`."""

    def __init__(self, redis: Redis, base: str) -> None:
        self._redis = redis
        self._base = base

    async def address(self, user: str, uid: str, action: str = "create") -> str | None:
        """The address after `create`, `renew` or `revoke` (None). Raises NotFound for an unknown channel."""
        call = load("hub_topic")(user, uid, action=action, secret=new_secret())
        found = await self._redis.script(call)
        if found is None:
            raise await absent(self._redis, user, uid)
        return self._address(user, uid, text(found)) if found else None

    async def find(self, path: str) -> PostsTopic | None:
        """The channel at a path below `PATH`."""
        match = _CHANNEL.fullmatch(path)
        if match is None:
            return None
        user, uid, shown = match.groups()
        (name, removed, secret), is_disabled = await self._redis.pipeline(
            [
                ("HMGET", keys.channel(user, uid), "name", "removed", "topic"),
                ("HEXISTS", keys.user(user), "disabled"),
            ]
        )
        if name is None or removed is not None or is_disabled or not hmac.compare_digest(secret or b"", shown.encode()):
            return None
        return PostsTopic(self._address(user, uid, shown), text(name), f"{self._base}/", (user, uid))

    async def newest(self, user: str, uid: str) -> list[str]:
        """The ids of the channel's newest items."""
        return texts(await self._redis.command("ZREVRANGE", keys.posts(user, uid), 0, NEWEST - 1))

    def _address(self, user: str, uid: str, secret: str) -> str:
        return f"{self._base}{PATH}/channels/{user}/{uid}.{secret}.json"
