"""Feed documents, and helpers for tests of polling and of the post store."""

from __future__ import annotations

from collections.abc import Sequence

from microsub.post_store.store import PostStore
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.server.jobs import store_of_posts as of_stores
from tests.support.world import FAST, Clock, World, world

__all__ = ["FAST", "Clock", "World", "dated", "follow", "next_time", "post_store", "rss", "unschedule", "world"]


def rss(entries: Sequence[tuple[str, str, str | None]], title: str = "Invented", extra: str = "") -> bytes:
    """An RSS document with (guid, title, date) entries, in this order; a date may be missing."""
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
    """Entries of January 2024, one per hour, newest first."""
    return [
        (f"post-{n}", f"Post {n}", f"{1 + n // 24:02d} Jan 2024 {n % 24:02d}:00:00 GMT")
        for n in range(start + count - 1, start - 1, -1)
    ]


FEED = "https://service.test/feed"


def post_store(it: World) -> PostStore:
    """The post store of another program, with its own listeners and locks."""
    return of_stores(it.through(it.redis))


async def follow(it: World, url: str = FEED, user: str = "alice", uid: str = "home") -> str:
    """Follow a feed that isn't polled; its id."""
    return (await it.follow_unscheduled(url, user, uid)).id


async def next_time(redis: Redis) -> float | None:
    """The time when the next host is due (or its lease expires); None if nothing is scheduled."""
    reply = await redis.command("ZRANGE", keys.hosts_due(), 0, 0, "WITHSCORES")
    return float(reply[1]) if reply else None


async def unschedule(redis: Redis, feed_id: str, host: str) -> None:
    """Remove the feed from the schedule."""
    await redis.command("ZREM", keys.host_due(host), feed_id)
