"""A user who reads in a browser, by HTTP without a screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from microsub.base.clock import DAY
from microsub.formats.wire import dump, to_wire
from microsub.model.jf2 import Entry
from microsub.redis.protocol import Redis
from tests.support.posts import NOON, candidate
from tests.support.readers import FEED, Reader, instance, posts
from tests.support.visitor import Shown, Visitor, begin_session, fields_of
from tests.support.world import World

ADDRESS = "https://reader.example"


@dataclass
class ReadingVisitor:
    """A browser in which its user is signed in."""

    server: World
    browser: Visitor
    reader: Reader

    async def get(self, path: str, **headers: str) -> Shown:
        return await self.browser.get(path, **headers)

    async def change(self, page: Shown, name: str, value: str = "1", action: str = "/marks", **headers: str) -> Shown:
        """Presses the button with this name in the page's form."""
        return await self.browser.post(action, {**fields_of(page.form(action)), name: value}, **headers)

    async def mark_all(self, page: Shown) -> Shown:
        return await self.browser.submit(page, "/marks/all")

    async def titles(self, path: str) -> list[str]:
        return titles(await self.get(path))

    async def publish(self, *names: str, feed: str = FEED, at: float = NOON, **more: Any) -> None:
        await self.server.publish(feed, *posts(*names, at=at, **more))

    async def publish_old(self) -> str:
        """Publishes posts of all ages in the blog; its id."""
        ages = {"months": 90, "weeks": 20, "days": 5, "hours": 0.9, "new": 0}
        for name, days in ages.items():
            await self.publish(name, at=self.server.now - days * DAY)
        (feed,) = await self.server.channels.followed_feeds("ann")
        return str(feed)

    async def publish_entry(self, entry: Entry, at: float = NOON) -> str:
        """Publishes one post with these properties; its id."""
        guid = entry.guid or entry.url or "post"
        await self.server.publish(FEED, candidate(guid.rpartition("/")[2], at=at, wire=dump(to_wire(entry))))
        return (await self.reader.ids("home"))[0]


def titles(page: Shown) -> list[str]:
    """The titles of the posts on a page, in their order."""
    return [" ".join(node.text().split()) for node in page.tree.css(".post h2")]


def ids(page: Shown) -> list[str]:
    """The ids of the posts on a page, in their order."""
    return [node.attributes["data-id"] or "" for node in page.tree.css(".post")]


async def reading(server: World, name: str, *channels: str) -> ReadingVisitor:
    """A user with these channels, of which the first follows the blog, in a browser of its own."""
    reader = await server.reader(name, *channels)
    await server.follow_unscheduled(FEED, name, channels[0])
    browser = Visitor(server.app, ADDRESS)
    await begin_session(browser, server, name)
    return ReadingVisitor(server, browser, reader)


@pytest.fixture
def redis(real_redis: Redis) -> Redis:
    """The Redis of `server`."""
    return real_redis


@pytest.fixture
async def server(real_redis: Redis) -> AsyncIterator[World]:
    """The application over empty stores."""
    async with instance(real_redis, base_url=ADDRESS) as made:
        yield made


@pytest.fixture
async def ann(server: World) -> ReadingVisitor:
    """Ann reads a blog in her channel `home`, and has an empty one."""
    return await reading(server, "ann", "home", "later")
