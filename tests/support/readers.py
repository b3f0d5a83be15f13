"""The HTTP API over real stores: users with tokens, feeds with posts, and a client that speaks to the application."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

import httpx

from microsub.app import create_app
from microsub.configuration.model import InstanceSettings
from microsub.configuration.store import InForce
from microsub.delivery.fan_out import FanOut
from microsub.discovery.directory import Directory
from microsub.discovery.search import Search
from microsub.feeds.events import Events
from microsub.feeds.record import FeedRecord
from microsub.fetch import Fetched, Fetcher, FetchFailed, FetchRequest, FetchResult, FetchSettings
from microsub.health import Health
from microsub.identity.store.accounts import ServiceTokens
from microsub.library.reading import Posts
from microsub.model.reader import ALL_SCOPES
from microsub.parsing.pool import ParsePool
from microsub.posts.ingest import PostWriter
from microsub.posts.values import ItemsStored, ItemToStore
from microsub.redis.presence import ProcessCounts
from microsub.redis.protocol import Redis
from microsub.redis.streams import Message
from microsub.settings import Settings
from microsub.surface import Services
from microsub.timelines.pages import ItemCache
from microsub.timelines.reading import ReaderViews
from microsub.upkeep.figures import Figures
from microsub.wiring.web import make_identity
from tests.support.parsing import PARSER
from tests.support.posts import NOON, candidate
from tests.support.timelines import Wired

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
class Instance(Wired):
    """Stores, services and application on one Redis; `now` is the time that the services see."""

    now: float = NOON + 10_000
    settings: InstanceSettings = field(default_factory=InstanceSettings)
    web: Web = field(default_factory=Web)
    parser: ParsePool = PARSER
    base_url: str | None = None

    def __post_init__(self) -> None:
        self.process = Settings(base_url=self.base_url, allow_private_networks=LOOPBACK)
        self.fetcher = Fetcher(FetchSettings(allow_private_networks=LOOPBACK), resolver=nowhere)
        self.identity = make_identity(self.process, self.redis, self.fetcher, self.parser, self)
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
            following=self.following,
            rules=self.rules,
            search=Search(self.web, directory, self.parser),
            health=Health(self.presence),
            figures=Figures(self.feeds, self.accounts, self.presence, ProcessCounts(self.redis)),
            posts=Posts(self.feeds, self.items, Events(self.redis)),
            service_tokens=self.service_tokens,
            identity=self.identity,
            clock=lambda: self.now,
        )

    async def everything(self) -> InForce:
        """The settings in force, as `SettingsInForce` says them."""
        return InForce(self.settings)

    async def instance(self) -> InstanceSettings:
        return self.settings

    def instance_now(self) -> InstanceSettings:
        return self.settings

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
        await PostWriter(self.redis).write(feed, posts, self.now)
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


FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"
ANN = "https://blog.example/"

Key = tuple[str, str, str]


def parameters(key: Key, ids: list[str]) -> dict[str, Any]:
    """A request of each kind that, from its own user, changes or shows as much as it can."""
    verb, action, method = key
    more: dict[Key, dict[str, Any]] = {
        ("POST", "channels", ""): {"channel": "home", "name": "Taken over"},
        ("POST", "channels", "delete"): {"channel": "home"},
        ("POST", "channels", "order"): {"channels[]": ["later", "home"]},
        ("GET", "timeline", ""): {"channel": "global", "limit": 100},
        ("POST", "timeline", "mark_read"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "mark_unread"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "remove"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "move"): {"channel": "later", "entry[]": ids},
        ("GET", "follow", ""): {"channel": "global"},
        ("POST", "follow", ""): {"channel": "later", "url": OTHER},
        ("POST", "follow", "update"): {"channel": "later", "url": FEED},
        ("POST", "unfollow", ""): {"channel": "home", "url": FEED},
        ("GET", "search", ""): {"query": "private words"},
        ("POST", "search", ""): {"query": "private words"},
        ("GET", "preview", ""): {"url": FEED},
        ("POST", "preview", ""): {"url": FEED},
        ("POST", "mute", ""): {"url": ANN},
        ("POST", "unmute", ""): {"url": ANN},
        ("POST", "block", ""): {"url": ANN},
        ("POST", "unblock", ""): {"url": ANN},
    }
    assert verb == "GET" or key in more, f"say here what a good request for {key} is"
    return {"action": action, **({"method": method} if method else {}), **more.get(key, {})}


async def snapshot(reader: Reader) -> str:
    """Everything that a user can see of their own things."""
    views: list[Any] = [
        await reader.get(action="channels", method="tree"),
        await reader.get(action="follow", channel="global"),
        await reader.get(action="mute"),
        await reader.get(action="block"),
        await reader.get(action="timeline", channel="global", limit=100),
    ]
    for channel in views[0]["channels"]:
        for is_read in ("true", "false"):
            views.append(await reader.get(action="timeline", channel=channel["uid"], limit=100, is_read=is_read))
    return json.dumps(views, sort_keys=True)
