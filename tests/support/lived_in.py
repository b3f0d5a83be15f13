"""A store after some use: two users, three feeds, read, muted and removed posts, a removed channel."""

from __future__ import annotations

from dataclasses import dataclass, field

from microsub.base.urls import host_of
from microsub.feeds.record import FeedRecord
from microsub.posts.ingest import PostWriter
from microsub.timelines.sync.arrivals import keep_order
from tests.support.posts import NOON, candidate
from tests.support.world import Clock, World

LATER = NOON + 5000
"""The time at which the tests examine the store."""


@dataclass(eq=False)
class LivedIn(World):
    """The stores on one Redis.

    Feed 1 (12 posts) is in ann's and bob's `home`. Feed 2 (5) is in ann's `work`, with all posts muted. Feed 3 (3) is
    in bob's `old`, which is removed.
    """

    clock: Clock = field(default_factory=lambda: Clock(LATER))

    async def begin(self) -> None:
        for name in ("ann", "bob"):
            await self.accounts.add_user(name, f"https://{name}.example/", NOON)
        await self.post("a.example", 12)
        await self.post("b.example", 5)
        await self.post("c.example", 3)
        for user, uid, host in (
            ("ann", "home", "a.example"), ("ann", "work", "b.example"),
            ("bob", "home", "a.example"), ("bob", "old", "c.example"),
        ):  # fmt: skip
            await self.channels.create(user, uid, NOON, uid)
            await self.following.follow(user, uid, f"https://{host}/feed", NOON)
        await self.timelines.mark_read("ann", "home", ["1", "2", "3"], NOON)
        await self.timelines.remove("ann", "home", ["4"], NOON)
        await self.rules.mute("ann", "work", "https://b.example/", NOON)
        for feed in await self.channels.disable("bob", "old", NOON):
            await self.feeds.unsubscribe(feed, "bob", "old")
        for name in ("ann", "bob"):
            await keep_order(self.redis, self.items, name, NOON)
        await self.accounts.create_token("ann", ["read"], "app", NOON)

    async def post(self, host: str, count: int) -> FeedRecord:
        """A feed with this many posts, as after a poll."""
        url = f"https://{host}/feed"
        feed = await self.feeds.ensure(url, NOON - 9000)
        posts = [candidate(str(n), host=host, at=NOON + n, common=f"t {host} {n}") for n in range(count)]
        stored = await PostWriter(self.redis).write(feed, posts, NOON)
        await self.items.done(feed.id, [item.id for item in stored.new])
        await self.feeds.update(feed.id, {"last_success": str(NOON), "next_poll": str(NOON + 9000)})
        assert host_of(url) == host
        return feed

    async def shown(self, user: str, uid: str) -> list[tuple[str, bool]]:
        """Id and read flag of all items in a channel, newest first."""
        rows = await self.timelines.walk(user, uid)
        return [(row.id, row.is_read) for row in rows]
