"""Fields of an item that aren't stored because they are the same as others, and those of earlier data."""

from __future__ import annotations

from typing import Any

import pytest

from microsub.feeds.record import Feeds
from microsub.posts import duplicates
from microsub.posts.ingest import PostWriter
from microsub.posts.items import Items
from microsub.posts.repacking import Repacking
from microsub.posts.thin import SAME_AS
from microsub.redis import keys
from microsub.redis.migrations import FIRST, migrate
from microsub.redis.protocol import Redis
from tests.posts.test_guid_changes import E, polled
from tests.support import no_pause
from tests.support.invariants import all_keys
from tests.support.polling import World
from tests.support.posts import NOON, candidate
from tests.support.redis_wrappers import Killing, killed_anywhere
from tests.support.web import Publisher

FEED, OTHER = "https://blog.example/atom", "https://blog.example/rss"
NAMES = ("one", "two", "three")
OF_LAYOUT_8 = ("author", "link", "updated", "twin_at")
"""The fields that each post has there."""
AUTHOR = "https://blog.example/"
NAMED = tuple(SAME_AS)


def repacking(redis: Redis) -> Repacking:
    return Repacking(redis, pause=no_pause)


async def store(redis: Redis, url: str = FEED, now: float = NOON, **changes: Any) -> list[str]:
    """The ids of the posts in that feed; their links are their guids unless that changes."""
    feed = await Feeds(redis).ensure(url, NOON)
    posts = [candidate(name, common=name, **{"author": AUTHOR, **changes}) for name in NAMES]
    await PostWriter(redis).write(feed, posts, now)
    found = await redis.command("HMGET", keys.feed_guids(feed.id), *(one.guid for one in posts))
    return [item.decode() for item in found]


async def stored(redis: Redis, item: str) -> set[str]:
    """Those of the fields that an item has in Redis."""
    values = await redis.command("HMGET", keys.item(item), *NAMED)
    return {name for name, value in zip(NAMED, values, strict=True) if value is not None}


async def facts(redis: Redis, ids: list[str]) -> object:
    """All facts about these posts."""
    items = Items(redis)
    rows = await items.fields(ids, (*NAMED, "Published", "Data"))
    return rows, await items.raw(ids), await items.timeline_items(ids), await duplicates.links_of(redis, ids)


async def of_layout_8(redis: Redis) -> list[str]:
    """Posts of two feeds as layout 8 has them, the migration done."""
    ids = [*await store(redis), *await store(redis, OTHER, link="https://blog.example/elsewhere")]
    for item in ids:
        row = await Items(redis).raw([item])
        await redis.command(
            "HSET", keys.item(item), *(part for name in OF_LAYOUT_8 for part in (name, row[0][name.encode()]))
        )
    await redis.command("SET", keys.schema(), FIRST)
    await migrate(redis)
    return ids


async def test_a_new_post_has_no_field_twice(redis: Redis) -> None:
    """All of them are read as before; another link is stored."""
    (item, *_), (other, *_) = await store(redis), await store(redis, OTHER, link="https://blog.example/elsewhere")
    assert (await stored(redis, item), await stored(redis, other)) == (set(), {"link"})
    ((author, link, updated, registered),) = await Items(redis).fields([item], NAMED)
    assert (link, updated, registered) == (b"https://blog.example/one", str(int(NOON)).encode(), updated)
    assert author == AUTHOR.encode()
    ((_, link, *_),) = await Items(redis).fields([other], NAMED)
    assert link == b"https://blog.example/elsewhere"
    assert await duplicates.links_of(redis, [item, other, "99"]) == [b"https://blog.example/one", link, None]
    assert await Items(redis).fields(["99"], NAMED) == [[None] * 4]


async def test_an_edit_and_a_later_reading_have_their_own_times(redis: Redis) -> None:
    """The time of discovery stays."""
    (item, *_) = await store(redis)
    await store(redis, now=NOON + 50, text="other words")
    ((updated, discovered),) = await Items(redis).fields([item], ("updated", "discovered"))
    assert (float(updated or 0), float(discovered or 0)) == (NOON + 50, NOON)
    await store(redis, now=NOON + 40 * 86400, text="other words")
    ((registered,),) = await Items(redis).fields([item], ("twin_at",))
    assert float(registered or 0) == NOON + 40 * 86400


@pytest.mark.parametrize("is_packed", [False, True])
async def test_posts_of_earlier_data_read_the_same_before_and_after(redis: Redis, is_packed: bool) -> None:
    """A dry run says how many there are, and what is freed; then there is nothing to do."""
    ids = await of_layout_8(redis)
    before = await facts(redis, ids)
    assert await stored(redis, ids[0]) == {*OF_LAYOUT_8}
    assert await stored(redis, ids[3]) == {*OF_LAYOUT_8, "link"}
    foreseen = await repacking(redis).foresee()
    assert await stored(redis, ids[0]) == {*OF_LAYOUT_8}
    if is_packed:
        done = await repacking(redis).run()
        assert (foreseen.thinned, foreseen.before, foreseen.after) == (done.thinned, done.before, done.after)
        assert (done.thinned, await stored(redis, ids[0]), await stored(redis, ids[3])) == (6, set(), {"link"})
        assert done.before - done.after > 6 * 20
        assert (await repacking(redis).run()).thinned == (await repacking(redis).foresee()).thinned == 0
    assert await facts(redis, ids) == before


@pytest.mark.parametrize(
    ("guid", "author"),
    [
        ("https://blog.example/one", "https://blog.example/"),
        ("https://blog.example/one", "https://blog.example/ann"),
        ("https://blog.example/one", ""),
        ("https://blog.example/one", "https://other.example/"),
        ("https://blog.example", "https://blog.example/"),
        ("tag:blog.example,2026:one", "https://blog.example/"),
        ("tag:blog.example,2026:one", ""),
    ],
)
async def test_an_author_is_read_as_it_was_written(redis: Redis, guid: str, author: str) -> None:
    """Whether it is the site of the guid or not, also when the guid has changed since."""
    feed = await Feeds(redis).ensure(FEED, NOON)
    (item,) = (await PostWriter(redis).write(feed, [candidate("one", guid=guid, author=author)], NOON)).new
    assert await Items(redis).fields([item.id], ["author"]) == [[author.encode()]]
    await Items(redis).change_guids(feed.id, [(item.id, candidate("one", guid="https://new.example/1"), guid, "")])
    assert await Items(redis).fields([item.id], ["guid", "author"]) == [[b"https://new.example/1", author.encode()]]
    assert [one.author for one in await Items(redis).timeline_items([item.id])] == [author]


async def test_killed_anywhere_posts_read_the_same(real_redis: Redis) -> None:
    """The packing, killed after any round trip and repeated."""
    redis = Killing(real_redis)
    made: list[tuple[list[str], object]] = []

    async def begin() -> None:
        ids = await of_layout_8(redis)
        made.append((ids, await facts(redis, ids)))

    async def again() -> None:
        assert await facts(redis, made[-1][0]) == made[-1][1]
        await redis.command("DEL", keys.lease("packing"))  # as when it has run out
        await repacking(redis).run()

    async def state() -> object:
        return await facts(redis, made[-1][0]), await all_keys(redis)

    assert await killed_anywhere(redis, begin, repacking(redis).run, state, again) > 3


async def test_a_new_guid_leaves_the_link_as_it_was(it: World, site: Publisher) -> None:
    """As the feed wrote it. So it is still known by it, and stays one post with its read state."""
    old = [E(f"http://posts.test/{n}/", f"/{n}/", f"Post {n}", f"About {n}", n) for n in range(6, 0, -1)]
    before = await polled(it, site, old)
    links = await duplicates.links_of(it.redis, before)
    assert await stored(it.redis, before[0]) == set()
    await it.timelines.mark_read("alice", "home", before[1:3], it.clock())
    new = [E(f"new-{n}", f"/{n}/", f"Post {n}", f"About {n}", n) for n in range(6, 0, -1)]
    assert await polled(it, site, new) == before
    assert await duplicates.links_of(it.redis, before) == links
    assert [link for link in links if link] == [f"http://posts.test/{n}/".encode() for n in range(6, 0, -1)]
    assert [row.is_read for row in await it.rows()] == [False, True, True, False, False, False]
    assert (await it.check()).is_clean
