"""What the hub knows and has to do, in Redis.

Subscriptions lie with the owner of their topic, `user <name>` or `feed <id>`, so that they go with a user who is
deleted. Work lies in one sorted set by the time at which it is due: an owner whose topics may have changed, or one
subscription with something to verify or to deliver. A worker claims a piece of work, gives signs of life, and ends the
claim last; what a dead worker had in hand is due again when its claim is over. All times are Unix seconds.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from microsub.kit.urls import host_of
from microsub.push.hub.subscriptions import HubSubscription, SubscriptionRequest
from microsub.redis import keys
from microsub.redis.protocol import Arg, Command, Redis
from microsub.redis.replies import fields, reading, text, texts
from microsub.redis.scripts import BATCH, batches, load

KEPT = 15 * 86_400
"""Seconds for which subscriptions are kept once one was asked for or verified: a day longer than any lease."""
TALLIES_KEPT, UNVERIFIED_KEPT = 90 * 86_400, 3_600
"""Seconds for which counts of a host are kept; briefly those of hosts that strangers name and nobody confirms."""

MOST_OF_OWNER = 5_000
MOST_OF_TOPIC = 1_000
MOST_OF_TOPIC_ON_HOST = 100
MOST_ON_HOST = 5_000
"""Subscriptions of one user or stored feed, of one topic, of one topic on one callback host, and of one host in all."""

WINDOW = 0.1
"""Seconds in which changes of an owner's topics are taken together."""

CLAIM = 30.0
"""Seconds after which the work of a worker that gives no sign of life is another one's."""

_FARTHEST = 2 * 86_400.0

LIMITS = {
    "owner": f"there are {MOST_OF_OWNER} subscriptions to topics of that kind already",
    "topic": f"there are {MOST_OF_TOPIC} subscriptions to that topic already",
    "host": f"there are {MOST_OF_TOPIC_ON_HOST} subscriptions of that host to that topic already",
}


@dataclass(frozen=True, slots=True)
class KnownSubscription:
    """What is kept of one subscription: what holds, what is asked for, and both as they were read."""

    owner: str
    id: str
    held: HubSubscription | None
    asked: SubscriptionRequest | None
    raw: tuple[str, str]

    @property
    def member(self) -> str:
        """How the subscription stands among the work."""
        return f"{self.owner} {self.id}"


class HubStore:
    """Subscriptions by owner, and counts by callback host."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def ask(self, owner: str, request: SubscriptionRequest, now: float) -> str | None:
        """Note a request until it is verified; None, or which limit is reached, in words."""
        live = ("ZCOUNT", keys.hub_callbacks(host_of(request.callback)), f"({now:.3f}", "+inf")
        if request.mode == "subscribe" and await self._redis.command(*live) >= MOST_ON_HOST:
            return f"there are {MOST_ON_HOST} subscriptions of that host already"
        limits: list[Arg] = [KEPT, MOST_OF_OWNER, MOST_OF_TOPIC, MOST_OF_TOPIC_ON_HOST]
        args: list[Arg] = [request.id, request.to_json(), *limits]
        limit = text(await self._redis.script(load("hub_ask"), [_key(owner)], args))
        if limit:
            return LIMITS[limit]
        await self._redis.command("SADD", keys.hub_owners(), owner)
        return None

    async def get(self, owner: str, subscription: str) -> KnownSubscription:
        """What is kept of a subscription, which may be nothing."""
        held, asked = await self._redis.command("HMGET", _key(owner), f"sub {subscription}", f"ask {subscription}")
        return _known(owner, subscription, text(held) or "", text(asked) or "")

    async def all_of(self, owner: str) -> list[KnownSubscription]:
        """All that is kept of an owner's subscriptions."""
        found = fields(await self._redis.command("HGETALL", _key(owner)))
        ids = dict.fromkeys(name.partition(" ")[2] for name in found)
        return [_known(owner, one, found.get(f"sub {one}", ""), found.get(f"ask {one}", "")) for one in ids]

    async def write(
        self, known: KnownSubscription, held: HubSubscription | None, asked: SubscriptionRequest | None, now: float
    ) -> bool:
        """Have a subscription and a request for it, or none, where nothing has changed since they were read."""
        args = [f"sub {known.id}", known.raw[0], held.to_json() if held else ""]
        args += [f"ask {known.id}", known.raw[1], asked.to_json() if asked else ""]
        if not await self._redis.script(load("compare_and_set"), [_key(known.owner)], args):
            return False
        before = held or known.held
        is_same = held is not None and known.held is not None and held.until == known.held.until
        if before is not None and not is_same:
            await self._list(known, before.callback, held, now)
        return True

    async def _list(self, known: KnownSubscription, callback: str, held: HubSubscription | None, now: float) -> None:
        """List a subscription by its callback's host, and its owner; or take it off."""
        key = keys.hub_callbacks(host_of(callback))
        change: Command = ("ZREM", key, known.member)
        if held is not None:
            change = ("ZADD", key, f"{held.until:.3f}", known.member)
            await self._redis.command("SADD", keys.hub_owners(), known.owner)
        over = ("ZREMRANGEBYSCORE", key, "-inf", f"{now:.3f}")
        kept: list[Command] = [("EXPIRE", one, KEPT) for one in (key, _key(known.owner))]
        await self._redis.pipeline([change, over, *kept])

    async def among_owners(self, owners: Sequence[str]) -> list[str]:
        """Those of the owners to whose topics somebody has subscribed."""
        found: list[str] = []
        for some in batches(owners, BATCH):
            flags = await self._redis.command("SMISMEMBER", keys.hub_owners(), *some)
            found += [owner for owner, flag in zip(some, flags, strict=True) if flag]
        return found

    async def owners(self) -> list[str]:
        """All owners to whose topics somebody has subscribed; those that have no subscriptions left are forgotten."""
        known = sorted(texts(await self._redis.command("SMEMBERS", keys.hub_owners())))
        there = await self._redis.pipeline([("EXISTS", _key(owner)) for owner in known])
        for owner in [owner for owner, flag in zip(known, there, strict=True) if not flag]:
            await self._redis.command("SREM", keys.hub_owners(), owner)
            if await self._redis.command("EXISTS", _key(owner)):  # somebody has subscribed in between
                await self._redis.command("SADD", keys.hub_owners(), owner)
        return [owner for owner, flag in zip(known, there, strict=True) if flag]

    async def count(self, callback: str, what: str) -> None:
        """Add to what was done for callbacks on that one's host (`keys.hub_tallies`)."""
        key = keys.hub_tallies(host_of(callback))
        left, _ = await self._redis.pipeline([("TTL", key), ("HINCRBY", key, what, 1)])
        await self._redis.command("EXPIRE", key, max(left, UNVERIFIED_KEPT if what == "unverified" else TALLIES_KEPT))

    async def tallies(self, hosts: Sequence[str]) -> dict[str, dict[str, int]]:
        """What was done for callbacks, by host. One round trip."""
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


class HubWork:
    """What is to be done, by when. `token` is the name of a worker's claims."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._keys = [keys.hub_due(), keys.hub_claims()]
        self.token = secrets.token_hex(8)

    async def note(self, times: Mapping[str, float], *, sooner: bool = False) -> None:
        """Plan work, member to time; what is planned already stays, or is done `sooner` where that is earlier."""
        how = "sooner" if sooner else "missing"
        for some in batches(list(times.items())):
            args: list[Arg] = [how, *(part for member, at in some for part in (member, f"{at:.3f}"))]
            await self._redis.script(load("hub_note"), self._keys, args)

    async def take(self, now: float, most: int) -> list[str]:
        """Claim up to `most` members that are due."""
        args: list[Arg] = [f"{now:.3f}", f"{now + CLAIM:.3f}", self.token, most, f"{now + _FARTHEST:.3f}"]
        return texts(await self._redis.script(load("hub_take"), self._keys, args))

    async def done(self, member: str, noted: float, again: float | None) -> None:
        """End a claim; the work is planned for `again`, or for the time `noted` where it was noted meanwhile."""
        await self._end({member: "done" if again is None else f"later {again:.3f}"}, noted)

    async def keep(self, members: Collection[str], now: float) -> set[str]:
        """A sign of life for what is in hand; which of it is another worker's by now."""
        return await self._end(dict.fromkeys(members, f"keep {now + CLAIM:.3f}"), now) if members else set()

    async def _end(self, verbs: Mapping[str, str], noted: float) -> set[str]:
        args: list[Arg] = [self.token, f"{noted:.3f}", *(part for pair in verbs.items() for part in pair)]
        return set(texts(await self._redis.script(load("hub_done"), self._keys, args)))


class TopicChanges:
    """Where the rest of the server says that topics may have changed."""

    def __init__(self, redis: Redis) -> None:
        self._store = HubStore(redis)
        self._work = HubWork(redis)

    async def note(self, users: Iterable[str], feeds: Iterable[str], now: float) -> bool:
        """Note that something came to these users, or of these feeds; whether anybody has subscribed to any."""
        owners = [*(f"user {name}" for name in dict.fromkeys(users)), *(f"feed {feed_id}" for feed_id in feeds)]
        found = await self._store.among_owners(owners)
        if found:
            await self._work.note(dict.fromkeys(found, now + WINDOW))
        return bool(found)


@dataclass(frozen=True, slots=True)
class CallbackHealth:
    """What the hub has to do with callbacks on one host: live subscriptions, and what was done in the last months."""

    subscriptions: int
    failing: int
    counts: Mapping[str, int]


async def hub_status(redis: Redis, now: float) -> dict[str, CallbackHealth]:
    """The health of callbacks by host, of all that has a subscription now."""
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
