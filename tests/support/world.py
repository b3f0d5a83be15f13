"""The parts of one server on one Redis connection, with the product's wiring, each created at its first use: stores,
pipeline, application, configuration. All invented host names resolve to 127.0.0.1.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from ipaddress import ip_network
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from microsub.accounts.post_room import PostRoom
from microsub.accounts.store import ServiceTokens
from microsub.admin.check.command import CheckReport, check_store
from microsub.admin.follow_repair import FollowRepair
from microsub.backend_file.apply import Applier
from microsub.backend_file.sync import Configuration, Timing
from microsub.base.errors import QuotaReached
from microsub.base.settings import Settings
from microsub.base.urls import host_of
from microsub.configuration.effective import AllSettings, EffectiveSettings
from microsub.configuration.model import InstanceSettings, Polling
from microsub.delivery.delivery import Delivery
from microsub.delivery.look_ups import Completing
from microsub.delivery.stage import Stages
from microsub.feeds.record import FeedRecord
from microsub.fetch import (
    Fetched,
    Fetcher,
    FetchFailed,
    FetchRequest,
    FetchResult,
    FetchSettings,
    HostPace,
)
from microsub.hub.worker import HubWorker
from microsub.micropub.posting import Posting
from microsub.micropub.sources import Sources
from microsub.model.reader import ALL_SCOPES, PageQuery, Row
from microsub.model.settings import Filters, OwnChannelSettings
from microsub.parsing.pool import ParsePool
from microsub.polling.move import Mover
from microsub.polling.on_demand import PollNow
from microsub.polling.poll import Poller, PollResult
from microsub.polling.worker import Turn, Worker, worker_name
from microsub.posts.ingest import Ingest, PostWriter
from microsub.posts.messages import ItemsStored
from microsub.posts.values import ItemToStore
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.tracking import Tracker
from microsub.server.app import create_app
from microsub.server.backend import applier
from microsub.server.jobs import follow_repair
from microsub.server.parts import WebParts, mention_receiver, noting_topics
from microsub.server.poller import delivery, delivery_stages, feed_poller
from microsub.server.stores import Stores, following, ingest, signed_feeds
from microsub.server.worker import device_messages, hub_subscriber, mention_verifier
from microsub.timelines.displays import ChannelDisplays
from microsub.timelines.follow import Following
from microsub.timelines.item_cache import ItemCache
from microsub.timelines.sign_in import SignedFeeds
from microsub.timelines.sync.live_events import Listeners
from microsub.transfer.feed_lists import FeedLists
from microsub.webmention.store import MentionStore
from microsub.webmention.verification import MentionVerifier
from microsub.webpush.messages import DeviceMessages
from microsub.websub.store import SubscriptionStore
from microsub.websub.subscriber import Subscriber
from microsub.work import Message, Patience
from tests.support.parsing import PARSER
from tests.support.reader import Reader
from tests.support.timelines import Timelines

FAST = InstanceSettings(polling=Polling(host_interval=0))
LOOPBACK = (ip_network("127.0.0.0/8"),)
QUICK = Timing(lease=5.0, retry=0.01, settle=0.01, quiet=0.02, longest_quiet=0.2, compare=0.1, after_failure=0.01)


@dataclass
class Clock:
    """Unix time that a test advances; it stands still if `at` is given."""

    at: float | None = None
    ahead: float = 0.0

    def __call__(self) -> float:
        return self.now

    @property
    def now(self) -> float:
        return (time.time() if self.at is None else self.at) + self.ahead

    @now.setter
    def now(self, moment: float) -> None:
        self.at, self.ahead = moment, 0.0

    def advance(self, seconds: float) -> None:
        self.ahead += seconds


async def loopback(_host: str, _port: int) -> Sequence[str]:
    """A resolver that resolves every name to loopback."""
    return ["127.0.0.1"]


async def nowhere(_host: str, _port: int) -> list[str]:
    """A resolver that resolves every name to a private address, so that no request leaves the machine."""
    return ["10.0.0.1"]


class Web:
    """Documents by URL, in place of the network; everything else can't be reached."""

    def __init__(self, documents: Mapping[str, tuple[bytes, str]] | None = None) -> None:
        self.documents = dict(documents or {})
        self.asked: list[str] = []

    async def fetch(self, request: FetchRequest) -> FetchResult:
        self.asked.append(request.url)
        found = self.documents.get(request.url)
        if found is None:
            return FetchFailed(request.url, "connect", "the host can't be reached")
        body, content_type = found
        return Fetched(request.url, request.url, 200, {}, body, content_type, None, None, None)


class WorldSettings(EffectiveSettings):
    """The effective settings, read each time; those of the instance are `given`, unless a file sets them."""

    def __init__(self, stores: Stores, given: Callable[[], InstanceSettings]) -> None:
        super().__init__(stores.declared, stores.own_settings, remembered=0.0)
        self._given = given

    async def everything(self) -> AllSettings:
        found = await super().everything()
        return found if found.instance != InstanceSettings() else replace(found, instance=self._given())


class WorldProcess(Settings):
    """The settings of a process with the address `server.test`."""

    @property
    def public_url(self) -> str:
        return self.base_url or "http://server.test"


@cache
def _keys() -> Path:
    """The folder of this process for keys. A run of tests deletes it at its end."""
    return Path(tempfile.mkdtemp(prefix="keys-"))


_NUMBERS = count()

CHECKOUT = Path(__file__).parents[2]


@dataclass(eq=False)
class World(Stores):
    """`file` is the backend.json, `web` has the documents for searches and previews, all parts use `clock`."""

    redis: Redis
    file: Path = Path("backend.json")
    settings: InstanceSettings = FAST
    clock: Clock = field(default_factory=Clock)
    limits: Mapping[str, Any] = field(default_factory=dict)
    resolver: Callable[[str, int], Any] = loopback
    patience: Patience = field(default_factory=Patience)
    tracker: Tracker | None = None
    completing: Completing | None = None
    parser: ParsePool = PARSER
    web: Any = field(default_factory=Web)
    base_url: str | None = None
    hub_feeds: bool = False
    write_back: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    key_file: Path = field(default_factory=lambda: _keys() / str(next(_NUMBERS)))

    @property
    def now(self) -> float:
        return self.clock()

    @now.setter
    def now(self, moment: float) -> None:
        self.clock.now = moment

    def through(self, redis: Any) -> World:
        """Another process of the same server, with this connection."""
        return replace(self, redis=redis)

    @property
    def process(self) -> Settings:
        return WorldProcess(base_url=self.base_url, hub_feeds=self.hub_feeds, allow_private_networks=LOOPBACK)

    # --- Timelines

    @cached_property
    def timelines(self) -> Timelines:
        return Timelines(self.redis, self.items)

    @property
    def adder(self) -> Timelines:  # type: ignore[override]
        """The same object as `timelines`."""
        return self.timelines

    @cached_property
    def effective(self) -> EffectiveSettings:
        return WorldSettings(self, lambda: self.settings)

    @cached_property
    def room(self) -> PostRoom:
        return PostRoom(self.redis, self.effective, self.clock)

    async def post_bytes(self, user: str = "alice") -> int:
        """The user's count of bytes of posts, after this process has reported, a minute later, what it knows."""
        self.clock.advance(61)
        with suppress(QuotaReached):
            await self.room.require([user])
        return int(await self.redis.command("HGET", keys.user(user), "post_bytes") or 0)

    @cached_property
    def following(self) -> Following:
        return following(self)

    @cached_property
    def signed(self) -> SignedFeeds:
        return signed_feeds(self)

    @cached_property
    def feed_lists(self) -> FeedLists:
        """The lists of a server without private networks."""
        return FeedLists(self.channels, self.feeds, self.following, self.parser, ChannelDisplays(self.redis))

    @cached_property
    def follow_repair(self) -> FollowRepair:
        return follow_repair(self)

    async def check(self, repair: bool = False) -> CheckReport:
        """The report of `microsub check`."""
        return await check_store(self.redis, self.follow_repair, repair=repair, clock=self.clock, pause=0)

    # --- The pipeline

    @cached_property
    def delivery(self) -> Delivery:
        return delivery(self, None if self.base_url is None else self.hub_worker.delivered)

    @cached_property
    def stages(self) -> Stages:
        return self.make_stages()

    def make_stages(self, completing: Completing | None = None) -> Stages:
        """The stages of one worker; look-ups are made only with `completing`."""
        parts = (self.delivery, completing or self.completing, self.parser)
        return delivery_stages(self, *parts, name=worker_name(), tracker=self.tracker, patience=self.patience)

    @cached_property
    def ingest(self) -> Ingest:
        return ingest(self, self.stages.wake)

    @cached_property
    def mover(self) -> Mover:
        async def deliver_to(*given: Any) -> None:  # tests replace the function that it calls
            await self.delivery.deliver_to(*given)

        return Mover(self.feeds, self.items, self.channels, self.schedule, deliver_to)

    @cached_property
    def fetcher(self) -> Fetcher:
        settings = FetchSettings(allow_private_networks=LOOPBACK, **self.limits)
        signs_in = self.sign_ins.headers
        return Fetcher(settings, resolver=self.resolver, clock=self.clock, sign_in_of=signs_in)

    @cached_property
    def poller(self) -> Poller:
        return self.make_poller()

    def make_poller(self, fetcher: Fetcher | None = None) -> Poller:
        parts = (fetcher or self.fetcher, self.parser, self.delivery, self.ingest)
        return replace(feed_poller(self, *parts, self.subscriber), random=lambda: 0.5)

    @cached_property
    def worker(self) -> Worker:
        return self.make_worker()

    @cached_property
    def verifier(self) -> MentionVerifier:
        """The verifier of webmention sources, without a pause between two requests to a host."""
        pace = HostPace(at_once=4, interval=0)
        return mention_verifier(self, self.fetcher, self.parser, pace)

    @cached_property
    def subscription_store(self) -> SubscriptionStore:
        return SubscriptionStore(self.redis, clock=self.clock)

    @cached_property
    def subscriber(self) -> Subscriber:
        """The keeper of subscriptions; without a `base_url` it sends nothing to hubs."""
        return hub_subscriber(self.process, self, self.fetcher)

    @cached_property
    def device_messages(self) -> DeviceMessages:
        return device_messages(self.process, self, self.fetcher)

    @cached_property
    def hub_worker(self) -> HubWorker:
        """The work of the hub; only with a `base_url`."""
        assert self.parts.topics is not None
        return HubWorker(self.redis, self.parts.topics, self.fetcher, clock=self.clock)

    def make_worker(
        self,
        lease_seconds: float = 60.0,
        hosts_at_once: int = 200,
        tick: float = 0.05,
        poller: Poller | None = None,
        stages: Stages | None = None,
    ) -> Worker:
        lasting: dict[str, Any] = {"lease_seconds": lease_seconds, "clock": self.clock}
        settings = self.effective.instance
        turn = Turn(self.schedule, self.feeds, poller or self.make_poller(), settings=settings, clock=self.clock)
        parts = (self.schedule, turn, self.presence, stages or self.make_stages())
        return Worker(*parts, hosts_at_once=hosts_at_once, tick=tick, **lasting)

    def poll_now(self) -> PollNow:
        return PollNow(self.feeds, self.schedule, self.worker, clock=self.clock)

    def poll_now_refusing(
        self, refused: dict[str, str], fetcher: Fetcher | None = None, *, beside_others: bool = False
    ) -> PollNow:
        """As the command builds it: refused addresses are added to `refused`."""

        async def others() -> bool:
            return beside_others

        note = lambda result: refused.update({result.feed: result.detail})  # noqa: E731
        worker = self.make_worker(poller=replace(self.make_poller(fetcher), on_refused=note))
        return PollNow(self.feeds, self.schedule, worker, others=others, refused=refused, clock=self.clock)

    async def follow(self, url: str, user: str = "alice", uid: str = "home") -> FeedRecord:
        """The state after following a new feed: user, channel, subscription, due at once."""
        feed, now = await self.follow_unscheduled(url, user, uid), self.clock()
        await self.schedule.add(feed.id, host_of(feed.url), now)
        return feed

    async def follow_unscheduled(self, url: str, user: str = "alice", uid: str = "home") -> FeedRecord:
        """Follow a feed that isn't polled."""
        now = self.clock()
        await self.accounts.add_user(user, "", now)
        await self.channels.create(user, uid, now, uid)
        feed = await self.feeds.ensure(url, now)
        await self.channels.follow(user, uid, feed.id, url, now)
        await self.feeds.subscribe(feed.id, user, uid)
        return feed

    async def make_due(self, *feeds: FeedRecord) -> None:
        await self.schedule.bump([(feed.id, host_of(feed.url)) for feed in feeds], self.clock())

    async def poll(self, feed: FeedRecord) -> PollResult:
        """One poll, followed by the stages."""
        return await self.poll_id(feed.id)

    async def poll_id(self, feed_id: str) -> PollResult:
        result = await self.poller.poll(feed_id)
        await self.stages.run_once()
        return result

    async def record(self, feed: FeedRecord) -> FeedRecord:
        found = await self.feeds.get(feed.id)
        assert found is not None
        return found

    async def filter(self, filters: dict[str, object], user: str = "alice") -> None:
        """Set the filters of the channel `home`."""
        await self.channels.set_settings(user, "home", OwnChannelSettings(filters=Filters.of(filters)), self.clock())

    async def rows(self, user: str = "alice", uid: str = "home", limit: int = 100) -> list[Row]:
        page = await self.timelines.page(user, uid, PageQuery(limit=limit), self.clock())
        return list(page.rows)

    async def texts(self, user: str = "alice", uid: str = "home") -> list[str]:
        """The stored JSON of the timeline's items, newest first."""
        data = await self.items.data([row.id for row in await self.rows(user, uid)])
        return [value.decode() if value else "" for value in data]

    # --- The application

    @cached_property
    def parts(self) -> WebParts:
        """The use cases of the application."""
        cache = ItemCache(self.items, None, 0)
        made = WebParts(
            self.process, self, self.configuration, cache, Listeners(), self.parser,
            searching=self.web, pages=self.fetcher, plain=self.fetcher,
        )  # fmt: skip
        made.topics_changed = noting_topics(self)
        made.mentions = mention_receiver(self, self.process.public_url, steady=self.clock)
        return made

    def use(self, **parts: Any) -> None:
        """Replace use cases of the application; clients go on with the new ones."""
        for name, part in parts.items():
            setattr(self.parts, name, part)
        self.__dict__.pop("app", None)

    @cached_property
    def mentions(self) -> MentionStore:
        return MentionStore(self.redis)

    @property
    def service_tokens(self) -> ServiceTokens:
        return self.parts.service_tokens

    @property
    def sources(self) -> Sources:
        return self.parts.sources

    @property
    def posting(self) -> Posting:
        return self.parts.posting

    @cached_property
    def app(self) -> ASGIApp:
        return create_app(self.parts, base_url=self.base_url)

    @cached_property
    def client(self) -> httpx.AsyncClient:
        """A client of the application."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.answer), base_url="http://server.test")

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The present application."""
        await self.app(scope, receive, send)

    async def reader(self, name: str, *channels: str, scopes: Sequence[str] = ALL_SCOPES) -> Reader:
        """A user with these channels and `notifications`."""
        await self.accounts.add_user(name, f"https://{name}.example/", self.now)
        for uid in channels:
            await self.channels.create(name, uid.title(), self.now, uid)
        return Reader(name, await self.grant(name, *scopes), self.client)

    async def grant(self, name: str, *scopes: str) -> str:
        """Another token of the user, with these scopes."""
        return await self.accounts.create_token(name, scopes, "tests", self.now)

    async def publish(self, url: str, *posts: ItemToStore, title: str | None = None) -> FeedRecord:
        """Store and deliver posts, as a poll of `url` that finds them does."""
        feed = await self.feeds.ensure(url, self.now)
        fields = {"title": title or "A blog", "last_success": str(self.now), "last_poll": str(self.now)}
        await self.feeds.update(feed.id, {**fields, "next_poll": str(self.now + 3600)})
        await PostWriter(self.redis).write(feed, posts, self.now)
        outbox = await self.items.outbox(feed.id)
        await self.delivery.handle(Message("1-1", ItemsStored(feed.id, tuple(outbox)).to_fields()))
        await self.items.done(feed.id, outbox)
        return feed

    # --- The configuration

    @cached_property
    def applier(self) -> Applier:
        return applier(self)

    @cached_property
    def configuration(self) -> Configuration:
        return self.server()

    def server(self) -> Configuration:
        """Another process with the same file and the same Redis."""
        return Configuration(
            self.file,
            self.applied,
            self.applier,
            write_back=self.write_back,
            environ=self.environ,
            clock=self.clock,
            timing=QUICK,
        )

    def save(self, document: Mapping[str, Any] | str, at: float | None = None) -> None:
        """Save as an editor does: write a temporary file and rename it. `at` sets the time of modification."""
        assert self.file.resolve().parent != CHECKOUT, "a test that saves works in a folder of its own"
        text = document if isinstance(document, str) else json.dumps(document, indent=2)
        temporary = self.file.with_suffix(".part")
        temporary.write_text(text)
        if at is not None:
            os.utime(temporary, (at, at))
        temporary.replace(self.file)

    def saved(self) -> Any:
        """The current document in the file."""
        return json.loads(self.file.read_text())

    async def state(self) -> dict[str, Any]:
        """Users as {name: {uid: (name, [urls])}}, without disabled ones, and with `notifications` if it has feeds."""
        current = await self.applier.current()
        return {
            name: {
                channel.uid: (channel.name, [feed.url for feed in channel.feeds])
                for channel in user.channels
                if channel.uid != "notifications" or channel.feeds
            }
            for name, user in current.users.items()
        }


@asynccontextmanager
async def world(redis: Redis, **parts: Any) -> AsyncIterator[World]:
    """A world on this Redis, closed at the end."""
    made = World(redis, **parts)
    try:
        yield made
    finally:
        if made.parser is not PARSER:
            made.parser.close()
        if "client" in vars(made):
            await made.client.aclose()
        if "parts" in vars(made):
            await made.parts.reading.aclose()
        if "fetcher" in vars(made):
            await made.fetcher.aclose()
