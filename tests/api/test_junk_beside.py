"""What a hand has put into other keys in Redis keeps no reader from the server."""

from __future__ import annotations

import pytest

from microsub.store import keys
from microsub.store.keynames import kinds
from microsub.store.port import Redis
from tests.support.junk import ANYTHING, ELSEWHERE, VALUE, apply, junk
from tests.support.posts import NOON
from tests.support.readers import instance, posts

FEED = "https://blog.example/feed"


@pytest.mark.parametrize("flavour", VALUE)
async def test_a_reader_is_served_beside_junk_in_every_kind_of_key(real_redis: Redis, flavour: str) -> None:
    """Ann's keys, those of one feed and those of the instance are spoilt; bob reads, marks, unfollows and lists."""
    async with instance(real_redis) as server:
        ann = await server.reader("ann", "home")
        await server.publish("https://a.example/feed", *posts("x"))
        bob = await server.reader("bob", "home")
        await server.publish(FEED, *posts("a", "b"))
        await bob.post(action="follow", channel="home", url=FEED)
        for kind in kinds():
            if kind.name not in ANYTHING | ELSEWHERE:
                await apply(real_redis, junk(kind, flavour))
        await server.services.reading.aclose()
        assert await bob.names("home") == ["a", "b"]
        assert await bob.unread() == 2
        await bob.post(action="timeline", method="mark_read", channel="home", entry=(await bob.ids())[0])
        assert await bob.unread() == 1
        assert len((await bob.get(action="follow", channel="home"))["items"]) == 1
        assert await ann.get(action="channels")
        await bob.post(action="unfollow", channel="home", url=FEED)
        # Nobody knows which numbers are new, and the log says so.
        await bob.post(503, action="follow", channel="home", url="https://new.example/feed")
        await real_redis.pipeline([("SET", keys.feed_ids(), 90), ("SET", keys.item_ids(), 90)])
        await bob.post(action="follow", channel="home", url="https://new.example/feed")
        await server.publish("https://new.example/feed", *posts("new", at=NOON + 60))
        assert "new" in await bob.names("home")
        await real_redis.command("FLUSHDB")
