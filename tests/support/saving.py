"""A post store over the stores of a `World`, with the world's clock and workers."""

from __future__ import annotations

from microsub.feeds.announcing import Announcing
from microsub.feeds.store.events import Events
from microsub.library.post_store import PostStore
from microsub.posts.store_stage import StoreEntries
from microsub.redis.streams import Stream
from microsub.upkeep.sweep import Sweeping
from tests.support.polling import World

FEED = "https://service.test/feed"


def post_store(it: World) -> PostStore:
    """As another program has it: with listeners and locks of its own."""
    announcing = Announcing(Events(it.redis))
    stored, incomplete = Stream(it.redis, "stored"), Stream(it.redis, "incomplete")
    store = StoreEntries(it.redis, it.feeds, it.items, stored, incomplete, announcing, clock=it.clock)
    sweeping = Sweeping(it.redis, it.accounts, it.feeds)
    return PostStore(it.redis, it.feeds, it.items, it.accounts, store, announcing, sweeping, clock=it.clock)


async def follow(it: World, url: str = FEED, user: str = "alice", uid: str = "home") -> str:
    """A reader follows a feed that nobody polls; its id."""
    await it.accounts.add_user(user, "", it.clock())
    await it.channels.create(user, uid, it.clock(), uid)
    feed = await it.feeds.ensure(url, it.clock())
    await it.channels.follow(user, uid, feed.id, url, it.clock())
    await it.feeds.subscribe(feed.id, user, uid)
    return feed.id
