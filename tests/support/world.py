"""One server's parts on one connection to Redis, by the product's wiring where that lets a clock in, each made when it
is first used: stores, pipeline, application, configuration. All invented host names lead to 127.0.0.1.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from microsub.administration import Applier
from microsub.app import create_app
from microsub.check.command import Checking, CheckReport
from microsub.configuration.model import InstanceSettings, Polling
from microsub.configuration.store import InForce, SettingsInForce
from microsub.configuration.sync import Configuration, Status, Timing
from microsub.delivery.dead_letters import DeadLetters
from microsub.delivery.delivery import Delivery
from microsub.delivery.look_ups import Completing
from microsub.delivery.stage import Patience, Stages
from microsub.discovery.directory import Directory
from microsub.discovery.search import Search
from microsub.feeds.events import Events
from microsub.feeds.record import FeedRecord, Feeds
from microsub.fetch import (
    Fetched,
    Fetcher,
    FetchFailed,
    FetchLimits,
    FetchRequest,
    FetchResult,
    FetchSettings,
    HostPace,
)
from microsub.health import Health
from microsub.identity.protocol.documents import profile_page
from microsub.identity.store.accounts import Activity, ServiceTokens
from microsub.kit.rate_limits import RateLimiter
from microsub.kit.urls import host_of
from microsub.library.post_store import post_store
from microsub.library.posts import Posts
from microsub.micropub.media import Media
from microsub.micropub.posting import Posting
from microsub.micropub.sources import Sources
from microsub.model.reader import ALL_SCOPES, PageQuery, Row
from microsub.model.settings import Filters, OwnChannelSettings
from microsub.notices import FeedTrouble, Notifications
from microsub.outputs import OutputContents
from microsub.parsing.pool import ParsePool
from microsub.polling.move import Mover
from microsub.polling.on_demand import PollNow
from microsub.polling.poll import Poller, PollResult
from microsub.polling.worker import Turn, Worker, worker_name
from microsub.posts.ingest import Ingest, PostWriter
from microsub.posts.items import Items
from microsub.posts.values import ItemsStored, ItemToStore
from microsub.push.callbacks import Callbacks
from microsub.push.deliveries import STAGE, Deliveries
from microsub.push.hub.distribution import Distribution
from microsub.push.hub.store import TopicChanges
from microsub.push.hub.topics import Topics
from microsub.push.hubs import Hubs
from microsub.push.store import Agreements, push_state
from microsub.push.subscriber import Subscriber
from microsub.reader.answering.answers import Answers
from microsub.reader.reading.images import Images
from microsub.redis.presence import ProcessCounts
from microsub.redis.protocol import Redis
from microsub.redis.streams import Message
from microsub.redis.tracking import Tracker
from microsub.settings import Settings
from microsub.surface import IdentityServices, Services
from microsub.timelines.channels import Channels
from microsub.timelines.follow import Following
from microsub.timelines.pages import ItemCache
from microsub.timelines.sync.live_events import Listeners
from microsub.timelines.views import ReaderViews
from microsub.transfer.feed_lists import FeedLists
from microsub.transfer.list_imports import ListImports
from microsub.upkeep.figures import Figures
from microsub.upkeep.follow_repair import FollowRepair
from microsub.webmention.receiver import MentionReceiver
from microsub.webmention.store import MentionStore
from microsub.webmention.verification import MentionVerifier
from microsub.webpush.devices import Devices
from microsub.webpush.messages import DeviceMessages
from microsub.wiring.stores import Stores, following, hub_topics, output_contents, sources, user_export
from microsub.wiring.web import admin_services, make_identity
from microsub.wiring.worker import page_texts
from tests.support.parsing import PARSER
from tests.support.reader import Reader
from tests.support.timelines import Timelines

FAST = InstanceSettings(polling=Polling(host_interval=0))
LOOPBACK = (ip_network("127.0.0.0/8"),)
QUICK = Timing(lease=5.0, retry=0.01, settle=0.01, quiet=0.02, longest_quiet=0.2, compare=0.1, after_failure=0.01)


@dataclass
class Clock:
    """Unix time that a test moves; it stands still where `at` is given."""

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


def own_settings(channels: Channels) -> Callable[[str, str], Awaitable[OwnChannelSettings]]:
    """What `SettingsInForce` asks for a channel's own settings."""

    async def own(user: str, uid: str) -> OwnChannelSettings:
        return (await channels.get(user, uid)).settings

    return own


async def loopback(_host: str, _port: int) -> Sequence[str]:
    """Every name is here."""
    return ["127.0.0.1"]


async def nowhere(_host: str, _port: int) -> list[str]:
    """A resolver to which every name is one of a private network, so that nobody outside is ever asked."""
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


@dataclass(eq=False)
class World(Stores):
    """`file` is the backend.json on its disk, `web` what searches and previews find, `clock` what all go by."""

    redis: Redis
    file: Path = Path("backend.json")
    settings: InstanceSettings = FAST
    clock: Clock = field(default_factory=Clock)
    limits: FetchLimits = field(default_factory=FetchLimits)
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

    @property
    def now(self) -> float:
        return self.clock()

    @now.setter
    def now(self, moment: float) -> None:
        self.clock.now = moment

    # --- Timelines

    @cached_property
    def timelines(self) -> Timelines:
        return Timelines(self.redis, self.items)

    @property
    def adder(self) -> Timelines:  # type: ignore[override]
        """The same."""
        return self.timelines

    @cached_property
    def in_force(self) -> SettingsInForce:
        """The settings, asked for each time."""
        return SettingsInForce(self.applied, own_settings(self.channels), remembered=0.0)

    @cached_property
    def following(self) -> Following:
        return following(self)

    @cached_property
    def feed_lists(self) -> FeedLists:
        return FeedLists(self.channels, self.feeds, self.following, self.parser)

    @cached_property
    def follow_repair(self) -> FollowRepair:
        return FollowRepair(self.redis, self.accounts, self.channels, self.feeds, self.schedule, self.following)

    async def check(self, repair: bool = False) -> CheckReport:
        """What `microsub check` says."""
        return await Checking(self.redis, self.follow_repair, clock=self.clock, pause=0).run(repair=repair)

    # --- The pipeline

    @cached_property
    def events(self) -> Events:
        return Events(self.redis)

    @cached_property
    def delivery(self) -> Delivery:
        hearing = None if self.topics is None else self.distribution.delivered
        return Delivery(self.redis, self.feeds, self.items, self.timelines, delivered=hearing, clock=self.clock)

    @cached_property
    def stages(self) -> Stages:
        return self.make_stages()

    @cached_property
    def ingest(self) -> Ingest:
        return self.make_ingest(self.redis)

    @cached_property
    def mover(self) -> Mover:
        return Mover(self.feeds, self.items, self.channels, self.schedule, self.delivery)

    @cached_property
    def fetcher(self) -> Fetcher:
        settings = FetchSettings(allow_private_networks=LOOPBACK, limits=self.limits)
        return Fetcher(settings, resolver=self.resolver, clock=self.clock)

    @cached_property
    def poller(self) -> Poller:
        return self.make_poller()

    @cached_property
    def worker(self) -> Worker:
        return self.make_worker()

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
            self.events,
            fetcher or self.fetcher,
            self.parser,
            mover=self.mover,
            settings=lambda: self.settings,
            clock=self.clock,
            random=lambda: 0.5,
            on_refused=on_refused,
            on_answered=self.subscriber.polled,
            on_trouble=FeedTrouble(self.feeds, self.notifications, self.in_force.of, self.clock).notify,
        )

    @cached_property
    def notifications(self) -> Notifications:
        return self.make_notifications(self.redis)

    def make_notifications(self, redis: Any) -> Notifications:
        """What writes into `notifications` through that connection."""
        ingest = self.make_ingest(redis)
        return Notifications(redis, Feeds(redis), Items(redis), self.following, ingest, self.events, clock=self.clock)

    @cached_property
    def mentions(self) -> MentionStore:
        return MentionStore(self.redis)

    @cached_property
    def mention_limits(self) -> RateLimiter:
        return RateLimiter(self.clock)

    @cached_property
    def mention_receiver(self) -> MentionReceiver:
        return self.make_mention_receiver(self.redis)

    def make_mention_receiver(self, redis: Any) -> MentionReceiver:
        """What takes in webmentions through that connection."""
        base = self.base_url or "http://server.test"
        return MentionReceiver(
            MentionStore(redis), self.accounts, self.rules, self.in_force, lent=partial(profile_page, base), own=base,
            limiter=self.mention_limits, clock=self.clock, steady=self.clock,
        )  # fmt: skip

    @cached_property
    def verifier(self) -> MentionVerifier:
        return self.make_verifier(self.redis)

    def make_verifier(self, redis: Any) -> MentionVerifier:
        """What looks at sources, without a pause between two requests to a host."""
        return MentionVerifier(
            MentionStore(redis), self.accounts, self.rules, self.in_force, self.make_notifications(redis),
            self.fetcher, self.parser, pace=HostPace(at_once=4, interval=0), clock=self.clock,
        )  # fmt: skip

    @cached_property
    def agreements(self) -> Agreements:
        return Agreements(self.redis, clock=self.clock)

    @cached_property
    def subscriber(self) -> Subscriber:
        """What keeps subscriptions; without a `base_url` it has no hubs to ask."""
        return self.make_subscriber(self.redis)

    def make_subscriber(self, redis: Any) -> Subscriber:
        hubs = Hubs(self.fetcher, self.base_url) if self.base_url is not None else None
        return Subscriber(redis, Feeds(redis), self.schedule, Agreements(redis), hubs, clock=self.clock)

    @cached_property
    def device_messages(self) -> DeviceMessages:
        return DeviceMessages(
            self.redis, self.identity.sessions, Activity(self.redis), self.channels, self.items, self.fetcher,
            page_texts, contact=self.base_url or "", clock=self.clock,
        )  # fmt: skip

    @cached_property
    def output_contents(self) -> OutputContents:
        return output_contents(self, partial(self.identity.quotas.most, "output_items"), base_url=self.base_url)

    @cached_property
    def topics(self) -> Topics | None:
        process = Settings(base_url=self.base_url, hub_feeds=self.hub_feeds)
        return hub_topics(process, self, self.output_contents, clock=self.clock)

    @cached_property
    def distribution(self) -> Distribution:
        """What does the work of the hub; with a `base_url` alone."""
        return self.make_distribution(self.redis)

    def make_distribution(self, redis: Any) -> Distribution:
        assert self.topics is not None
        return Distribution(redis, self.topics, self.fetcher, clock=self.clock)

    @cached_property
    def callbacks(self) -> Callbacks:
        return Callbacks(self.redis, self.feeds, self.schedule, self.agreements, clock=self.clock)

    def make_ingest(self, redis: Any) -> Ingest:
        """What takes posts in through that connection."""
        return Ingest(redis, Feeds(redis), Items(redis), self.events, clock=self.clock, notify=self.stages.wake)

    def make_stages(self, completing: Completing | None = None) -> Stages:
        """The stages of one worker; nothing is looked up unless `completing` is there."""
        stages = Stages(
            self.redis,
            self.feeds,
            self.items,
            self.delivery,
            self.events,
            completing or self.completing,
            consumer=worker_name(),
            patience=self.patience,
            tracker=self.tracker,
            clock=self.clock,
        )
        stages.serve(STAGE, lambda message: self.deliveries.handle(message))  # noqa: PLW0108 - made later
        return stages

    @cached_property
    def deliveries(self) -> Deliveries:
        return Deliveries(self.feeds, self.agreements, self.ingest, self.parser, clock=self.clock)

    def make_worker(
        self, lease_seconds: float = 60.0, hosts_at_once: int = 200, tick: float = 0.05, poller: Poller | None = None
    ) -> Worker:
        turn = Turn(
            self.schedule,
            self.feeds,
            poller or self.make_poller(),
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
        worker = self.make_worker(poller=self.make_poller(note, fetcher))
        return PollNow(self.feeds, self.schedule, worker, others=others, refused=refused, clock=self.clock)

    async def follow(self, url: str, user: str = "alice", uid: str = "home") -> FeedRecord:
        """What following a new feed comes to: user, channel, subscription, due at once."""
        feed, now = await self.follow_unscheduled(url, user, uid), self.clock()
        await self.schedule.add(feed.id, host_of(feed.url), now)
        return feed

    async def follow_unscheduled(self, url: str, user: str = "alice", uid: str = "home") -> FeedRecord:
        """A reader follows a feed that nobody polls."""
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
        """One poll, and what the stages make of it."""
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
        """Let the channel `home` take what these filters let through."""
        await self.channels.set_settings(user, "home", OwnChannelSettings(filters=Filters.of(filters)), self.clock())

    async def rows(self, user: str = "alice", uid: str = "home", limit: int = 100) -> list[Row]:
        page = await self.timelines.page(user, uid, PageQuery(limit=limit), self.clock())
        return list(page.rows)

    async def texts(self, user: str = "alice", uid: str = "home") -> list[str]:
        """The wire JSON of the timeline, newest first."""
        data = await self.items.data([row.id for row in await self.rows(user, uid)])
        return [value.decode() if value else "" for value in data]

    # --- The application

    @cached_property
    def identity(self) -> IdentityServices:
        process = Settings(base_url=self.base_url, allow_private_networks=LOOPBACK)
        return make_identity(process, self.redis, self.fetcher, self.parser, self)

    async def everything(self) -> InForce:
        """The settings in force, as `SettingsInForce` says them."""
        return InForce(self.settings)

    async def instance(self) -> InstanceSettings:
        return self.settings

    def instance_now(self) -> InstanceSettings:
        return self.settings

    @cached_property
    def service_tokens(self) -> ServiceTokens:
        return ServiceTokens(self.redis)

    @cached_property
    def services(self) -> Services:
        health = Health(self.presence, push=partial(push_state, self.redis) if self.base_url else None)
        return Services(
            accounts=self.accounts,
            reading=ReaderViews(self.redis, self.channels, self.feeds, self.items, ItemCache(self.items, None, 0)),
            redis=self.redis,
            channels=self.channels,
            items=self.items,
            feeds=self.feeds,
            images=Images(self.redis, self.fetcher),
            answers=Answers(self.redis, self.fetcher),
            devices=Devices(self.redis),
            following=self.following,
            rules=self.rules,
            feed_lists=self.feed_lists,
            list_imports=ListImports(self.redis, self.feed_lists, self.identity.quotas, clock=self.clock),
            user_export=user_export(self),
            name_instance=self.applied.name_instance,
            search=Search(self.web, Directory(self.feeds, lambda: self.settings), self.parser),
            health=health,
            figures=Figures(self.feeds, self.accounts, self.presence, ProcessCounts(self.redis)),
            posts=Posts(self.feeds, self.items, Events(self.redis)),
            callbacks=self.callbacks,
            mentions=self.mention_receiver,
            service_tokens=self.service_tokens,
            identity=self.identity,
            admin=admin_services(self, health, Status),
            outputs=self.outputs,
            output_contents=self.output_contents,
            topics=self.topics,
            topics_changed=lambda user, now: TopicChanges(self.redis).note([user], (), now),
            listeners=Listeners(),
            sources=self.sources,
            posting=self.posting,
            media=Media(self.redis),
            settings_of=self.in_force.of,
            public_url=self.base_url or "http://server.test",
            clock=self.clock,
        )

    @cached_property
    def sources(self) -> Sources:
        return sources(self)

    @cached_property
    def posting(self) -> Posting:
        return self.make_posting(self.redis)

    def make_posting(self, redis: Any) -> Posting:
        """What takes posts of sources in through that connection."""
        erase = post_store(self).delete
        ingest = self.make_ingest(redis)
        return Posting(redis, Feeds(redis), Items(redis), ingest, self.parser, Media(redis), erase, clock=self.clock)

    @cached_property
    def app(self) -> ASGIApp:
        return create_app(self.services, base_url=self.base_url)

    @cached_property
    def client(self) -> httpx.AsyncClient:
        """What speaks to the application."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://server.test")

    async def reader(self, name: str, *channels: str, scopes: Sequence[str] = ALL_SCOPES) -> Reader:
        """A user, with these channels besides `notifications`."""
        await self.accounts.add_user(name, f"https://{name}.example/", self.now)
        for uid in channels:
            await self.channels.create(name, uid.title(), self.now, uid)
        return Reader(name, await self.grant(name, *scopes), self.client)

    async def grant(self, name: str, *scopes: str) -> str:
        """Another token of the user, with these scopes."""
        return await self.accounts.create_token(name, scopes, "tests", self.now)

    async def publish(self, url: str, *posts: ItemToStore, title: str | None = None) -> FeedRecord:
        """What a poll of `url` does that finds these posts."""
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
        stores = (self.accounts, self.channels, self.feeds, self.rules)
        return Applier(*stores, self.following, self.applied, self.outputs, self.sources)

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
        """What an editor does: write a file beside it and rename it. `at` sets the time of modification."""
        text = document if isinstance(document, str) else json.dumps(document, indent=2)
        temporary = self.file.with_suffix(".part")
        temporary.write_text(text)
        if at is not None:
            os.utime(temporary, (at, at))
        temporary.replace(self.file)

    def saved(self) -> Any:
        """The document in the file now."""
        return json.loads(self.file.read_text())

    async def state(self) -> dict[str, Any]:
        """Users as {name: {uid: (name, [urls])}}, disabled ones left out, `notifications` where it has feeds."""
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
    """A world on that Redis, closed at the end."""
    made = World(redis, **parts)
    try:
        yield made
    finally:
        if made.parser is not PARSER:
            made.parser.close()
        if "client" in vars(made):
            await made.client.aclose()
        if "fetcher" in vars(made):
            await made.fetcher.aclose()
