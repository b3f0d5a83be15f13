"""A generated population in a real Redis.

Users, channels, tokens, feeds and posts are written by the product's own stores. For a million subscriptions and ten
million timeline items these would need half an hour, so those are written in bulk, in the state that the stores produce
by following, polling and reading; `sample` compares both ways on a small population, key by key.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import itemgetter
from typing import TypeVar

import orjson

from benchmarks.readings import pieces
from benchmarks.scale.bulk import Bulk, command, part
from benchmarks.scale.plan import Size, deal, followers
from benchmarks.shelves import entry
from microsub.accounts.store import Accounts
from microsub.articles.icons import ASKED
from microsub.base.urls import host_of
from microsub.feeds.hosts import HOST_RECORD, Schedule
from microsub.feeds.record import FeedRecord, Feeds
from microsub.model.jf2 import Feed
from microsub.posts.entries import items_to_store
from microsub.posts.ingest import PostWriter
from microsub.posts.items import Items
from microsub.posts.values import ItemToStore
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import score_text
from microsub.timelines import Channels, keep_order
from microsub.timelines.add import Adder
from microsub.timelines.pages import sorting
from microsub.timelines.read_state import ReadState

T = TypeVar("T")

DAY = 86_400
FOLLOWED = 40 * DAY
"""Seconds since all follows began."""
SYNCING = 3
"""One user in so many has an app that reads by the order of arrival."""
SPAN = 30 * DAY
"""Seconds over which each feed's posts are spread."""
_AT_ONCE = 100


@dataclass(frozen=True, slots=True, eq=False)
class FeedThere:
    """A loaded feed: its record, and the ids and scores of its posts, newest first."""

    record: FeedRecord
    ids: tuple[str, ...]
    scores: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """The loaded data. `counts`: followers by rank; `follows`: ranks by user; `json`: bytes of a post's packed JSON."""

    size: Size
    now: float
    counts: Sequence[int]
    follows: Sequence[Sequence[int]]
    tokens: list[str] = field(default_factory=list)
    feeds: list[FeedThere] = field(default_factory=list)
    json: list[int] = field(default_factory=list)

    def channel_of(self, place: int) -> str:
        """The channel of the user's feed at that position."""
        return channel_name(place % self.size.channels)

    def channels(self, user: int) -> Iterator[tuple[str, list[int]]]:
        """The user's channels with the ranks of their feeds."""
        for number in range(self.size.channels):
            yield channel_name(number), list(self.follows[user][number :: self.size.channels])


def user_name(number: int) -> str:
    """The name of a user; those of a small population are as long as those of a large one, as are its feeds' hosts."""
    return f"user{number:04}"


def channel_name(number: int) -> str:
    """The uid of a channel."""
    return f"channel-{number}"


def is_read(place: int) -> bool:
    """Whether the feed's post at that position, 0 being the newest, is read by all followers."""
    return place % 3 == 2


def population(size: Size, now: float) -> Population:
    """The plan of a population, of which nothing is loaded yet. `now` in whole Unix seconds."""
    counts = followers(size)
    return Population(size, now, counts, deal(counts, size.users))


async def people(redis: Redis, there: Population, at_once: int = _AT_ONCE) -> None:
    """Create users with one token each."""
    accounts = Accounts(redis)
    since = there.now - FOLLOWED

    async def one(number: int) -> str:
        user = user_name(number)
        await accounts.add_user(user, f"https://{user}.example/", since)
        if number % SYNCING == 0:
            await keep_order(redis, Items(redis), user, there.now - SPAN - 1)
        return await accounts.create_token(user, ["read", "follow", "channels"], "a reader app", since)

    there.tokens.extend(await _all(one, there.size.users, at_once))


async def channels(redis: Redis, there: Population, at_once: int = _AT_ONCE) -> None:
    """Create the channels of all users."""
    store = Channels(redis)

    async def one(number: int) -> None:
        for at in range(there.size.channels):
            await store.create(user_name(number), f"Channel {at}", there.now - FOLLOWED, channel_name(at))

    await _all(one, there.size.users, at_once)


async def feeds(redis: Redis, bulk: Bulk, there: Population, at_once: int = _AT_ONCE) -> None:
    """Create feeds as after a poll, each with its first follower, and due in a month."""
    store, schedule = Feeds(redis), Schedule(redis)
    first = {rank: user for user in reversed(range(there.size.users)) for rank in there.follows[user]}
    await redis.command("SET", keys.feed_ids(), 10_000)  # ids of five digits, as most feeds of a large server have

    async def one(rank: int) -> FeedThere:
        record = await store.ensure(f"https://blog-{rank:05}.example/posts/feed.xml", there.now - FOLLOWED)
        await store.update(record.id, _polled(record, there.now))
        await schedule.add(record.id, host_of(record.url), there.now + 30 * DAY)
        user = first[rank]
        uid = there.channel_of(there.follows[user].index(rank))
        await store.subscribe(record.id, user_name(user), uid)
        return FeedThere(await store.get(record.id) or record, (), ())

    there.feeds.extend(await _all(one, there.size.feeds, at_once))
    bulk.run(_hosts(there))


def _hosts(there: Population) -> Iterator[bytes]:
    """Write the data of hosts that polls leave for two days."""
    for feed in there.feeds:
        key = part(keys.host(host_of(feed.record.url)))
        values = [part(text) for text in ("token", feed.record.id, "free", f"{there.now:.6f}")]
        yield command(6, part("HSET"), key, *values)
        yield command(3, part("EXPIRE"), key, part(str(HOST_RECORD)))


async def posts(redis: Redis, there: Population, at_once: int = _AT_ONCE) -> None:
    """Store and announce the posts of all feeds."""
    store = Items(redis)
    template = post_template(there.now)

    async def one(rank: int) -> FeedThere:
        feed = there.feeds[rank]
        candidates = [new_post(template, there, rank, place) for place in range(there.size.items)]
        stored = (await PostWriter(redis).write(feed.record, candidates, there.now - SPAN)).new
        await store.done(feed.record.id, [item.id for item in stored])
        scores = tuple(score_text(one.score) for one in candidates)
        return replace(feed, ids=tuple(item.id for item in stored), scores=scores)

    there.feeds[:] = await _all(one, there.size.feeds, at_once)
    sample = [item for feed in there.feeds[:: max(1, there.size.feeds // 100)] for item in feed.ids]
    stored = await redis.pipeline([("HSTRLEN", keys.item(item), "Data") for item in sample])
    there.json.append(round(sum(stored) / len(sample)))


def subscriptions(bulk: Bulk, there: Population) -> None:
    """Write both sides of all follows; each feed has its first follower already."""
    bulk.run(_subscriptions(there))


def _subscriptions(there: Population) -> Iterator[bytes]:
    since = there.now - FOLLOWED
    hset, sadd = part("HSET"), part("SADD")
    said = [
        part(feed.record.id) + part(orjson.dumps({"url": feed.record.url, "followed_at": since}))
        for feed in there.feeds
    ]
    unread = [part(f"unread_from {feed.record.id}") + part(f"{since:.0f}") for feed in there.feeds]
    places: list[list[bytes]] = [[] for _ in there.feeds]
    for user in range(there.size.users):
        name = user_name(user)
        for uid, ranks in there.channels(user):
            key = part(keys.channel_feeds(name, uid))
            yield command(2 + 2 * len(ranks), hset, key, *(said[rank] for rank in ranks))
            yield command(2 + 2 * len(ranks), hset, part(keys.channel(name, uid)), *(unread[rank] for rank in ranks))
            member = part(f"{name}/{uid}")
            for rank in ranks:
                places[rank].append(member)
    for feed, members in zip(there.feeds, places, strict=True):
        for start in range(0, len(members), 1000):
            some = members[start : start + 1000]
            yield command(2 + len(some), sadd, part(keys.feed_subscribers(feed.record.id)), *some)


def timelines(bulk: Bulk, there: Population) -> None:
    """Write all posts into the timelines of their followers, a third of them read."""
    bulk.run(_timelines(there))


def _timelines(there: Population) -> Iterator[bytes]:
    zadd, sadd, hset = part("ZADD"), part("SADD"), part("HSET")
    shown, fresh, seen = [], [], []
    for feed in there.feeds:
        pairs = [part(score) + part(item) for score, item in zip(feed.scores, feed.ids, strict=True)]
        shown.append(b"".join(pairs))
        fresh.append(b"".join(part(item) for place, item in enumerate(feed.ids) if not is_read(place)))
        seen.append(pieces((int(item), there.now) for place, item in enumerate(feed.ids) if is_read(place)))
    each = there.size.items
    unread = each - sum(map(is_read, range(each)))
    arrived = [_in_order(feed) for feed in there.feeds]
    for user in range(there.size.users):
        name = user_name(user)
        if user % SYNCING == 0:
            ids = [item for _, ranks in there.channels(user) for rank in ranks for item in arrived[rank]]
            yield from _arrivals(name, there, ids)
        for uid, ranks in there.channels(user):
            for key, verb, chunks, words in (
                (keys.posts, zadd, shown, 2 * each),
                (keys.unread, sadd, fresh, unread),
            ):
                if words:
                    number = 2 + words * len(ranks)
                    yield command(number, verb, part(key(name, uid)), *(chunks[rank] for rank in ranks))
            read = chain.from_iterable(seen[rank].items() for rank in ranks)
            for at, some in groupby(sorted(read), itemgetter(0)):
                piece = b"".join(records for _, records in some)
                yield command(4, hset, part(keys.read(name, uid)), part(str(at)), part(piece))


async def newest(redis: Redis, there: Population) -> None:
    """Bring the newest unread posts into their order, as first pages do."""
    for user in range(there.size.users):
        await redis.scripts(sorting(user_name(user), [uid for uid, _ in there.channels(user)]))


def _in_order(feed: FeedThere) -> list[bytes]:
    """The ids of a feed's posts in the order in which they are added to a timeline: the oldest first."""
    found = sorted(zip(feed.scores, feed.ids, strict=True), key=lambda one: (float(one[0]), one[1]))
    return [part(item) for _, item in found]


def _arrivals(name: str, there: Population, items: Sequence[bytes]) -> Iterator[bytes]:
    """A user's order of arrival, in which all posts arrived at the same time."""
    first = int((there.now - SPAN) * 1_000_000)
    for start in range(0, len(items), 1000):
        some = items[start : start + 1000]
        pairs = (half for at, item in enumerate(some, first + start) for half in (part(str(at)), item))
        yield command(2 + 2 * len(some), part("ZADD"), part(keys.arrivals(name)), *pairs)
    if items:
        last = first + len(items) - 1
        yield command(4, part("HSET"), part(keys.arrivals_more(name)), part("last"), part(str(last)))


async def by_the_stores(redis: Redis, there: Population) -> None:
    """Write the same as `subscriptions` and `timelines`, but with the product's own steps, which is slow."""
    follows, store, items = Channels(redis), Feeds(redis), Items(redis)
    adder, read_state = Adder(redis, items), ReadState(redis, items)
    for user in range(there.size.users):
        name = user_name(user)
        for uid, ranks in there.channels(user):
            for rank in ranks:
                feed = there.feeds[rank]
                await follows.follow(name, uid, feed.record.id, feed.record.url, there.now - FOLLOWED)
                await store.subscribe(feed.record.id, name, uid)
                known = await items.timeline_items(feed.ids)
                await adder.add(name, uid, feed.record.id, known, now=there.now - SPAN, limit=0)
                seen = [item for place, item in enumerate(feed.ids) if is_read(place)]
                await read_state.mark(name, uid, seen, "read", there.now)


def _polled(record: FeedRecord, now: float) -> dict[str, str | None]:
    """The fields that polls write into a feed's record."""
    return {
        "title": f"The weblog with the number {record.id}",
        "home": record.url.removesuffix("feed.xml"),
        "description": "Notes from a workshop by the harbour, on brass, fog and chard",
        "format": "rss",
        "etag": f'"{hashlib.md5(record.url.encode(), usedforsecurity=False).hexdigest()}"',
        "last_modified": "Thu, 01 Oct 2026 10:00:00 GMT",
        "body_hash": hashlib.sha256(record.url.encode()).hexdigest(),
        "interval": "7200.000",
        "gap": "86400.000",
        "last_change": f"{now - DAY:.3f}",
        "last_poll": f"{now:.3f}",
        "next_poll": f"{now + 30 * DAY:.3f}",
        "last_success": f"{now:.3f}",
        "failures": "0",
        ASKED: f"{now:.0f}",  # its site for an icon: deliveries of a known feed don't wait for that
        "last_new": "0",
        "last_updated": "0",
    }


def post_template(now: float) -> ItemToStore:
    """A post as a poll passes it on, for `new_post`."""
    return items_to_store(Feed("https://blog.example/", "rss", entries=(entry(0, now),)), now)[0]


def new_post(template: ItemToStore, there: Population, rank: int, place: int) -> ItemToStore:
    """One post: the template with another address and date; its JSON has the same length except for the number."""
    number = rank * 100_000 + place
    link = f"https://blog-{rank:05}.example/posts/{number}"
    # Posts are a prime number of seconds apart, and each feed has its own offset, so that times differ.
    published = there.now - (place + 1) * (SPAN // (there.size.items + 1)) + rank * 7919 % 80_000
    return replace(
        template,
        guid=link,
        wire=template.wire.replace(b"https://blog.example/posts/0", link.encode()),
        hash=hashlib.blake2b(link.encode(), digest_size=16).hexdigest(),
        score=float(int(published)),
        author=f"https://blog-{rank:05}.example/",
        link=link,
        common=template.common and hashlib.sha256(link.encode()).hexdigest()[: len(template.common)],
    )


async def _all(act: Callable[[int], Awaitable[T]], count: int, at_once: int) -> list[T]:
    found: list[T] = []
    for start in range(0, count, at_once):
        found += await asyncio.gather(*(act(number) for number in range(start, min(count, start + at_once))))
    return found
