"""Lists of followers are cached, and never used after a change."""

from __future__ import annotations

from typing import Any

import pytest

from microsub.feeds.followers import Audience, Places
from microsub.feeds.record import Feeds
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.posts import NOON

URL = "https://blog.example/feed"


@pytest.fixture
async def feed(redis: Redis) -> str:
    feeds = Feeds(redis)
    feed = await feeds.ensure(URL, NOON)
    for user in ("ann", "bob"):
        await feeds.subscribe(feed.id, user, "home")
    return feed.id


def reads_of(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lists that are read from now on."""
    read: list[str] = []
    pipeline = redis.pipeline

    async def watched(commands: Any) -> Any:
        read.extend(str(command[1]) for command in commands if command[0] == "SMEMBERS")
        return await pipeline(commands)

    monkeypatch.setattr(redis, "pipeline", watched)
    return read


async def places(redis: Redis, audience: Audience, feed: str) -> Places:
    """The followers of the feed, as delivery requests them."""
    return await audience.at(feed, await audience.asking(feed))


async def test_a_list_is_read_once(redis: Redis, feed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing changes, only its edition is requested; following a followed feed again changes nothing."""
    read = reads_of(redis, monkeypatch)
    feeds = Feeds(redis)
    for _ in range(3):
        assert await places(redis, feeds.audience, feed) == (("ann", "home"), ("bob", "home"))
        await Feeds(redis).subscribe(feed, "ann", "home")
        await Feeds(redis).unsubscribe(feed, "eve", "home")
    assert read == [keys.feed_subscribers(feed)]


async def test_followers_changed_by_another_process_count_at_once(redis: Redis, feed: str) -> None:
    """Followers added and removed by another process are in the next answer."""
    here, elsewhere = Feeds(redis), Feeds(redis)
    assert len(await places(redis, here.audience, feed)) == 2
    await elsewhere.subscribe(feed, "eve", "news")
    assert await places(redis, here.audience, feed) == (("ann", "home"), ("bob", "home"), ("eve", "news"))
    await elsewhere.unsubscribe(feed, "ann", "home")
    assert await places(redis, here.audience, feed) == (("bob", "home"), ("eve", "news"))
    await elsewhere.unsubscribe(feed, "bob", "home")
    await elsewhere.unsubscribe(feed, "eve", "news")
    assert await places(redis, here.audience, feed) == ()


async def test_a_change_while_a_list_is_read_is_not_missed(redis: Redis, feed: str) -> None:
    """The list then has an older edition, so the next request reads it again."""
    audience = Audience(redis)
    pipeline = redis.pipeline

    async def between(commands: Any) -> Any:
        edition = await redis.command(*commands[0])
        [members] = await pipeline(commands[1:])
        await Feeds(redis).subscribe(feed, "eve", "home")
        return [edition, members]

    redis.pipeline = between  # type: ignore[method-assign]
    assert len(await places(redis, audience, feed)) == 2
    redis.pipeline = pipeline  # type: ignore[method-assign]
    assert len(await places(redis, audience, feed)) == 3


async def test_memory_is_bounded(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list that wasn't used for longest is dropped first; a single list that is too long still works."""
    feeds = Feeds(redis)
    for feed, count in (("1", 2), ("2", 2), ("3", 9)):
        for number in range(count):
            await feeds.subscribe(feed, f"user{number}", "home")
    audience = Audience(redis, most=4)
    read = reads_of(redis, monkeypatch)
    for feed in ("1", "2", "1", "2", "3", "3", "1"):
        await places(redis, audience, feed)
    assert read == [keys.feed_subscribers(feed) for feed in ("1", "2", "3", "1")]


async def test_the_edition_lives_as_long_as_the_feed(redis: Redis, feed: str) -> None:
    """It expires with the other keys of a feed without followers."""
    feeds = Feeds(redis)
    assert await redis.command("TTL", keys.feed_edition(feed)) == -1
    for user in ("ann", "bob"):
        await feeds.unsubscribe(feed, user, "home")
    assert await redis.command("TTL", keys.feed_edition(feed)) > 0
    await feeds.subscribe(feed, "ann", "home")
    assert await redis.command("TTL", keys.feed_edition(feed)) == -1
