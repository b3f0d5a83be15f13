"""A world to poll in: real stores and pipeline, invented host names that all lead to 127.0.0.1, a clock of its own."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from microsub.configuration.model import InstanceSettings, Polling
from microsub.delivery.dead_letters import DeadLetters
from microsub.delivery.fan_out import FanOut
from microsub.delivery.look_ups import Completing
from microsub.delivery.stage import Patience, Stages
from microsub.feeds.events import Announcing, Events
from microsub.feeds.record import FeedRecord, Feeds
from microsub.fetch import Fetcher, FetchLimits, FetchSettings
from microsub.kit.urls import host_of
from microsub.library.post_store import PostStore
from microsub.model.reader import PageQuery, Row
from microsub.model.settings import Filters, OwnChannelSettings
from microsub.polling.moving import Mover
from microsub.polling.on_demand import PollNow
from microsub.polling.poll import Poller, PollResult
from microsub.polling.worker import Turn, Worker, worker_name
from microsub.posts.ingest import Ingest
from microsub.posts.items import Items
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.upkeep.sweep import Sweeping
from tests.support.parsing import PARSER
from tests.support.timelines import Wired

FAST = InstanceSettings(polling=Polling(host_interval=0))


@dataclass
class Clock:
    """Unix time that a test can move forward."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead

    def advance(self, seconds: float) -> None:
        self.ahead += seconds


async def loopback(_host: str, _port: int) -> Sequence[str]:
    """Every name is here."""
    return ["127.0.0.1"]


@dataclass
class World(Wired):
    """The stores on one Redis, and what polls into them. `workers()` makes more workers on the same stores."""

    settings: InstanceSettings = FAST
    limits: FetchLimits = field(default_factory=FetchLimits)
    clock: Clock = field(default_factory=Clock)
    patience: Patience = field(default_factory=Patience)
    completing: Completing | None = None

    def __post_init__(self) -> None:
        self.announcing = Announcing(Events(self.redis))
        self.fan_out = FanOut(self.redis, self.feeds, self.items, self.timelines, clock=self.clock)
        self.stages = self.make_stages()
        self.ingest = self.make_ingest(self.redis)
        self.mover = Mover(self.feeds, self.items, self.channels, self.schedule, self.fan_out)
        self.parser = PARSER
        self.fetcher = Fetcher(
            FetchSettings(allow_private_networks=(ip_network("127.0.0.0/8"),), limits=self.limits),
            resolver=loopback,
            clock=self.clock,
        )
        self.poller = self.make_poller()
        self.worker = self.make_worker()

    def make_poller(
        self,
        on_refused: Callable[[PollResult], object] | None = None,
        fetcher: Fetcher | None = None,
        redis: Redis | None = None,
    ) -> Poller:
        """A poller; with `redis` it writes through that connection, else through the world's own."""
        return Poller(
            self.feeds if redis is None else Feeds(redis),
            self.items if redis is None else Items(redis),
            self.ingest if redis is None else self.make_ingest(redis),
            DeadLetters(redis or self.redis),
            self.announcing,
            fetcher or self.fetcher,
            self.parser,
            mover=self.mover,
            settings=lambda: self.settings,
            clock=self.clock,
            random=lambda: 0.5,
            on_refused=on_refused,
        )

    def make_ingest(self, redis: Any) -> Ingest:
        """What takes posts in through that connection."""
        return Ingest(redis, Feeds(redis), Items(redis), self.announcing, clock=self.clock, notify=self.stages.wake)

    def make_stages(self) -> Stages:
        """The stages of one worker; nothing is looked up unless `completing` is there."""
        return Stages(
            self.redis,
            self.feeds,
            self.items,
            self.fan_out,
            self.announcing,
            self.completing,
            consumer=worker_name(),
            patience=self.patience,
            clock=self.clock,
        )

    def make_worker(self, lease_seconds: float = 60.0, hosts_at_once: int = 200, tick: float = 0.05) -> Worker:
        turn = Turn(
            self.schedule,
            self.feeds,
            self.make_poller(),
            settings=lambda: self.settings,
            lease_seconds=lease_seconds,
            clock=self.clock,
        )
        return Worker(
            self.schedule,
            turn,
            self.presence,
            self.make_stages(),
            hosts_at_once=hosts_at_once,
            lease_seconds=lease_seconds,
            tick=tick,
            clock=self.clock,
        )

    def poll_now(self) -> PollNow:
        return PollNow(self.feeds, self.schedule, self.worker, clock=self.clock)

    def poll_now_refusing(
        self, refused: dict[str, str], fetcher: Fetcher | None = None, *, beside_others: bool = False
    ) -> PollNow:
        """As the command has it: what may not be asked goes into `refused`."""

        async def others() -> bool:
            return beside_others

        note = lambda result: refused.update({result.feed: result.detail})  # noqa: E731
        turn = Turn(self.schedule, self.feeds, self.make_poller(note, fetcher), clock=self.clock)
        worker = Worker(self.schedule, turn, self.presence, self.make_stages(), clock=self.clock)
        return PollNow(self.feeds, self.schedule, worker, others=others, refused=refused, clock=self.clock)

    async def follow(self, url: str, user: str = "alice", uid: str = "home") -> FeedRecord:
        """What following a new feed comes to: user, channel, subscription, due at once."""
        now = self.clock()
        await self.accounts.add_user(user, "", now)
        await self.channels.create(user, uid, now, uid)
        feed = await self.feeds.ensure(url, now)
        await self.channels.follow(user, uid, feed.id, url, now)
        await self.feeds.subscribe(feed.id, user, uid)
        await self.schedule.add(feed.id, host_of(feed.url), now)
        return feed

    async def make_due(self, *feeds: FeedRecord) -> None:
        await self.schedule.bump([(feed.id, host_of(feed.url)) for feed in feeds], self.clock())

    async def poll(self, feed: FeedRecord) -> PollResult:
        """One poll, and what the stages make of it."""
        return await self.poll_id(feed.id)

    async def poll_id(self, feed_id: str) -> PollResult:
        """The same for a feed's id."""
        result = await self.poller.poll(feed_id)
        await self.stages.run_once()
        return result

    async def record(self, feed: FeedRecord) -> FeedRecord:
        found = await self.feeds.get(feed.id)
        assert found is not None
        return found

    async def filter(self, filters: dict[str, object], user: str = "alice", uid: str = "home") -> None:
        """Let a channel take what these filters let through."""
        await self.channels.set_settings(user, uid, OwnChannelSettings(filters=Filters.of(filters)), self.clock())

    async def rows(self, user: str = "alice", uid: str = "home", limit: int = 100) -> list[Row]:
        page = await self.timelines.page(user, uid, PageQuery(limit=limit), self.clock())
        return list(page.rows)

    async def texts(self, user: str = "alice", uid: str = "home") -> list[str]:
        """The wire JSON of the timeline, newest first."""
        data = await self.items.data([row.id for row in await self.rows(user, uid)])
        return [value.decode() if value else "" for value in data]


@asynccontextmanager
async def world(redis: Redis, **parts: object) -> AsyncIterator[World]:
    """A world on that Redis, closed at the end."""
    made = World(redis, **parts)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        if made.parser is not PARSER:
            made.parser.close()
        await made.fetcher.aclose()


def rss(entries: Sequence[tuple[str, str, str | None]], title: str = "Invented", extra: str = "") -> bytes:
    """An RSS document of (guid, title, date) entries, in that order; the date may be missing."""
    items = "".join(
        f"<item><guid isPermaLink='false'>{guid}</guid><link>http://posts.test/{guid}</link><title>{name}</title>"
        f"<description>About {name}</description>{f'<pubDate>{date}</pubDate>' if date else ''}</item>"
        for guid, name, date in entries
    )
    return (
        f"<?xml version='1.0'?><rss version='2.0'><channel><title>{title}</title>"
        f"<link>http://posts.test/</link>{extra}{items}</channel></rss>"
    ).encode()


def dated(count: int, start: int = 1) -> list[tuple[str, str, str | None]]:
    """Entries of January 2024, one an hour, the newest first."""
    return [
        (f"post-{n}", f"Post {n}", f"{1 + n // 24:02d} Jan 2024 {n % 24:02d}:00:00 GMT")
        for n in range(start + count - 1, start - 1, -1)
    ]


FEED = "https://service.test/feed"


def post_store(it: World) -> PostStore:
    """As another program has it: with listeners and locks of its own."""
    announcing = Announcing(Events(it.redis))
    ingest = Ingest(it.redis, it.feeds, it.items, announcing, clock=it.clock)
    sweeping = Sweeping(it.redis, it.accounts, it.feeds)
    return PostStore(it.redis, it.feeds, it.items, it.accounts, ingest, announcing, sweeping, clock=it.clock)


async def follow(it: World, url: str = FEED, user: str = "alice", uid: str = "home") -> str:
    """A reader follows a feed that nobody polls; its id."""
    await it.accounts.add_user(user, "", it.clock())
    await it.channels.create(user, uid, it.clock(), uid)
    feed = await it.feeds.ensure(url, it.clock())
    await it.channels.follow(user, uid, feed.id, url, it.clock())
    await it.feeds.subscribe(feed.id, user, uid)
    return feed.id


async def next_time(redis: Redis) -> float | None:
    """When the next host is due (or its lease runs out); None where nothing is scheduled."""
    reply = await redis.command("ZRANGE", keys.hosts_due(), 0, 0, "WITHSCORES")
    return float(reply[1]) if reply else None


async def unschedule(redis: Redis, feed_id: str, host: str) -> None:
    """The feed has no turn any more."""
    await redis.command("ZREM", keys.host_due(host), feed_id)
