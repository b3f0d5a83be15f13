"""The HTTP API over real stores: users with tokens, feeds with posts, and a client that speaks to the application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

import httpx

from microsub.app import create_app
from microsub.configuration.model import InstanceSettings
from microsub.delivery.fan_out import FanOut
from microsub.discovery.directory import Directory
from microsub.discovery.search import Search
from microsub.feeds.store.events import Events
from microsub.feeds.store.queue import Schedule
from microsub.feeds.store.record import FeedRecord, Feeds
from microsub.fetch import Fetched, Fetcher, FetchFailed, FetchRequest, FetchResult, FetchSettings
from microsub.health import Health
from microsub.identity.store.accounts import Accounts
from microsub.identity.store.service_tokens import ServiceTokens
from microsub.library.reading import Posts
from microsub.model.scopes import ALL_SCOPES
from microsub.parsing.pool import ParsePool
from microsub.posts.messages import ItemsStored
from microsub.posts.store.items import Items
from microsub.posts.values import ItemToStore
from microsub.redis.presence import Presence
from microsub.redis.processcounts import ProcessCounts
from microsub.redis.protocol import Redis
from microsub.redis.streams import Message
from microsub.settings import Settings
from microsub.surface import Services
from microsub.timelines.following import Following
from microsub.timelines.reading import ReaderViews
from microsub.timelines.store.channels import Channels
from microsub.timelines.store.pages import ItemCache
from microsub.timelines.store.rules import Rules
from microsub.upkeep.figures import Figures
from microsub.wiring.identity import make_identity
from tests.support.parsing import PARSER
from tests.support.posts import NOON, candidate
from tests.support.timelines import Timelines
from tests.support.usual import usual_settings

ENDPOINT = "/microsub"
LOOPBACK = (ip_network("127.0.0.0/8"),)


async def nowhere(_host: str, _port: int) -> list[str]:
    """A resolver to which every name is one of a private network, so that nobody outside is ever asked."""
    return ["10.0.0.1"]


class Web:
    """Documents by URL, in place of the network; everything else can't be reached."""

    def __init__(self) -> None:
        self.documents: dict[str, tuple[bytes, str]] = {}
        self.asked: list[str] = []

    async def fetch(self, request: FetchRequest) -> FetchResult:
        self.asked.append(request.url)
        found = self.documents.get(request.url)
        if found is None:
            return FetchFailed(request.url, "connect", "the host can't be reached")
        body, content_type = found
        return Fetched(request.url, request.url, 200, {}, body, content_type, None, None, None)


@dataclass
class Reader:
    """A user with a token; `get` and `post` return the decoded object after checking status and type."""

    name: str
    token: str
    client: httpx.AsyncClient

    async def get(self, status: int = 200, **params: Any) -> dict[str, Any]:
        return self.checked(await self.client.get(ENDPOINT, params=params, headers=self.headers), status)

    async def post(self, status: int = 200, **params: Any) -> dict[str, Any]:
        return self.checked(await self.client.post(ENDPOINT, data=params, headers=self.headers), status)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def items(self, channel: str = "home", **params: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get(action="timeline", channel=channel, **params))["items"]
        return found

    async def names(self, channel: str = "home", **params: Any) -> list[str]:
        return [item["name"] for item in await self.items(channel, **params)]

    async def ids(self, channel: str = "home", **params: Any) -> list[str]:
        return [item["_id"] for item in await self.items(channel, **params)]

    async def unread(self, channel: str = "home") -> int:
        channels = (await self.get(action="channels"))["channels"]
        return {entry["uid"]: entry["unread"] for entry in channels}[channel]

    async def walk(self, channel: str = "home", **params: Any) -> list[str]:
        """The ids of all pages, following `after`."""
        found: list[str] = []
        after = ""
        while True:
            page = await self.get(action="timeline", channel=channel, after=after, **params)
            found += [item["_id"] for item in page["items"]]
            after = page["paging"].get("after", "")
            if not after:
                return found

    @staticmethod
    def checked(response: httpx.Response, status: int) -> dict[str, Any]:
        assert response.status_code == status, response.text
        assert response.headers.get_list("content-type") == ["application/json"]
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["access-control-allow-origin"] == "*"
        document = response.json()
        assert isinstance(document, dict)
        assert_no_null(document)
        return document


@dataclass
class Instance:
    """Stores, services and application on one Redis; `now` is the time that the services see."""

    redis: Redis
    now: float = NOON + 10_000
    settings: InstanceSettings = field(default_factory=InstanceSettings)
    web: Web = field(default_factory=Web)
    parser: ParsePool = PARSER
    base_url: str | None = None

    def __post_init__(self) -> None:
        self.process = Settings(base_url=self.base_url, allow_private_networks=LOOPBACK)
        self.fetcher = Fetcher(FetchSettings(allow_private_networks=LOOPBACK), resolver=nowhere)
        self.identity = make_identity(self.process, self.redis, self.fetcher, self.parser, lambda: self.settings)
        self.accounts = Accounts(self.redis)
        self.channels = Channels(self.redis)
        self.feeds = Feeds(self.redis)
        self.items = Items(self.redis)
        self.schedule = Schedule(self.redis)
        self.timelines = Timelines(self.redis, self.items)
        self.rules = Rules(self.redis, self.items)
        self.presence = Presence(self.redis)
        self.service_tokens = ServiceTokens(self.redis)
        self.fan_out = FanOut(self.redis, self.feeds, self.items, self.timelines)
        self.services = self.make_services()
        self.app = create_app(self.services, base_url=self.base_url)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://server.test")

    def make_services(self) -> Services:
        directory = Directory(self.feeds, lambda: self.settings)
        return Services(
            accounts=self.accounts,
            reading=ReaderViews(self.redis, self.channels, self.feeds, self.items, ItemCache(self.items, None, 0)),
            redis=self.redis,
            channels=self.channels,
            items=self.items,
            following=Following(
                self.redis, self.channels, self.feeds, self.items, self.timelines, self.schedule, usual_settings
            ),
            rules=self.rules,
            search=Search(self.web, directory, self.parser),
            health=Health(self.presence),
            figures=Figures(self.feeds, self.accounts, self.presence, ProcessCounts(self.redis)),
            posts=Posts(self.feeds, self.items, Events(self.redis)),
            service_tokens=self.service_tokens,
            identity=self.identity,
            clock=lambda: self.now,
        )

    async def reader(self, name: str, *channels: str, scopes: Sequence[str] = ALL_SCOPES) -> Reader:
        """A user, with these channels besides `notifications`."""
        await self.accounts.add_user(name, f"https://{name}.example/", self.now)
        for uid in channels:
            await self.channels.create(name, uid.title(), self.now, uid)
        return Reader(name, await self.accounts.create_token(name, scopes, "tests", self.now), self.client)

    async def publish(self, url: str, *posts: ItemToStore, title: str | None = None) -> FeedRecord:
        """What a poll of `url` does that finds these posts."""
        feed = await self.feeds.ensure(url, self.now)
        fields = {"title": title or "A blog", "last_success": str(self.now), "last_poll": str(self.now)}
        await self.feeds.update(feed.id, {**fields, "next_poll": str(self.now + 3600)})
        await self.items.store(feed, posts, self.now)
        pending = await self.items.pending(feed.id)
        await self.fan_out.handle(Message("1-1", ItemsStored(feed.id, tuple(pending)).to_fields()))
        await self.items.done(feed.id, pending)
        return feed

    async def grant(self, name: str, *scopes: str) -> str:
        """Another token of the user, with these scopes."""
        return await self.accounts.create_token(name, scopes, "tests", self.now)


@asynccontextmanager
async def instance(redis: Redis, **parts: Any) -> AsyncIterator[Instance]:
    """An instance on that Redis, its client closed at the end."""
    made = Instance(redis, **parts)
    try:
        async with made.client:
            yield made
    finally:
        if made.parser is not PARSER:
            made.parser.close()
        await made.fetcher.aclose()


def posts(*names: str, at: float = NOON, **more: Any) -> list[ItemToStore]:
    """Posts in document order, the newest first, a second apart."""
    return [candidate(name, at=at + len(names) - place, **more) for place, name in enumerate(names)]


def assert_no_null(value: Any) -> None:
    """Properties without a value are omitted, never null."""
    assert value is not None
    if isinstance(value, Mapping):
        for member in value.values():
            assert_no_null(member)
    elif isinstance(value, list):
        for member in value:
            assert_no_null(member)


__all__ = ["ENDPOINT", "Instance", "Reader", "Web", "assert_no_null", "instance", "posts"]
