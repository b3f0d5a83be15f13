"""One post that thousands of feeds claim to have: no feed is compared with all the others."""

from __future__ import annotations

from dataclasses import replace

from microsub.feeds.record import FeedRecord, Feeds
from microsub.model.reader import Duplicate
from microsub.posts.duplicates import MOST, PostOfFeed, duplicates_of, surplus
from microsub.posts.ingest import PostWriter
from microsub.posts.items import Items
from microsub.posts.values import ItemToStore, WrittenItem
from microsub.redis import keys
from microsub.redis.protocol import Redis

NOW = 1_700_000_000.0
POST = ItemToStore(
    guid="one",
    wire=b'{"type":"entry","url":"https://blog.test/1","name":"One"}',
    hash="h",
    score=NOW,
    link="https://blog.test/1",
    common="claimed",
)


async def stored(redis: Redis, url: str) -> tuple[FeedRecord, WrittenItem]:
    feed = await Feeds(redis).ensure(url, NOW)
    return feed, (await PostWriter(redis).write(feed, [POST], NOW)).new[0]


async def test_a_crowd_of_copies_is_bounded(real_redis: Redis) -> None:
    """After 500 feeds, all of them still find the author's own copy, and no post names more than `MOST`."""
    own, first = await stored(real_redis, "https://blog.test/feed")
    for number in range(500):
        _, item = await stored(real_redis, f"https://planet{number}.test/feed")
        (found,) = await Items(real_redis).timeline_items([item.id])
        assert found.duplicates == (Duplicate(first.id, own.id, True),)
        assert await real_redis.command("ZCARD", keys.duplicates("blog.test")) <= MOST
    (again,) = await Items(real_redis).timeline_items([first.id])
    assert MOST // 2 < len(again.duplicates) < MOST


async def test_a_copy_that_is_not_remembered_finds_its_duplicates(real_redis: Redis) -> None:
    """On one host the first copy stays known, and the thousandth still finds it."""
    feed, first = await stored(real_redis, "https://host.test/feed")
    for number in range(150):
        _, item = await stored(real_redis, f"https://host.test/feed{number}")
        (found,) = await Items(real_redis).timeline_items([item.id])
        assert Duplicate(first.id, feed.id, True) in found.duplicates
        assert len(found.duplicates) < MOST + 1
    members = await real_redis.command("ZRANGE", keys.duplicates("blog.test"), 0, -1)
    assert item.id not in {PostOfFeed.read(member, "blog.test").item for member in members}


def test_the_least_useful_duplicates_are_forgotten_first() -> None:
    """Copies on the link's own host stay, then the first of every host; copies of a stranger can't displace them."""
    own = [PostOfFeed(str(n), f"f{n}", "blog.test", "blog.test") for n in range(3)]
    pair = [PostOfFeed(str(n), f"f{n}", "planet.test", "blog.test") for n in (3, 4)]
    crowd = [PostOfFeed(str(n), f"f{n}", "evil.test", "blog.test") for n in range(5, 1000)]
    many = surplus([*crowd, *pair, *own])
    kept = {*own, *pair, *crowd} - {*many}
    assert len(kept) == MOST
    assert {*own, *pair, crowd[0]} <= kept
    assert surplus([*own, *pair]) == []
    stranger = replace(crowd[0], item="2000", feed="x", host="another.test")
    assert {one.feed for one in duplicates_of(stranger, kept)} == {"f0", "f1", "f2"}
