"""The digest that copies of a post share, and copies of earlier data, which had longer ones and sets of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest

from microsub.feeds.record import Feeds
from microsub.posts import duplicates
from microsub.posts.duplicates import PostOfFeed
from microsub.posts.ingest import PostWriter
from microsub.posts.items import Items
from microsub.posts.repacking import Repacking
from microsub.redis import keys
from microsub.redis.migrations import FIRST, migrate
from microsub.redis.protocol import Command, Redis
from tests.support import no_pause
from tests.support.invariants import all_keys
from tests.support.posts import NOON, candidate
from tests.support.redis_wrappers import Killing, Wrapped, killed_anywhere

FEEDS = ("https://blog.example/atom", "https://blog.example/rss", "https://blog.example/json")
NAMES = ("one", "two", "three")
SET = keys.duplicates("blog.example")


def shared(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def repacking(redis: Redis) -> Repacking:
    return Repacking(redis, pause=no_pause)


async def store(redis: Redis, url: str, now: float = NOON) -> dict[str, str]:
    """The ids of the posts in that feed, by name."""
    feed = await Feeds(redis).ensure(url, NOON)
    posts = [candidate(name, common=shared(name)) for name in NAMES]
    await PostWriter(redis).write(feed, posts, now)
    found = await redis.command("HMGET", keys.feed_guids(feed.id), *(one.guid for one in posts))
    return {name: item.decode() for name, item in zip(NAMES, found, strict=True)}


async def of_layout_8(redis: Redis, urls: tuple[str, ...] = FEEDS[:2]) -> list[dict[str, str]]:
    """Posts in several feeds as layout 8 has them, after the migration."""
    made = [await store(redis, url) for url in urls]
    members = await redis.command("ZRANGE", SET, 0, -1)
    posts = {one.item: one for one in (PostOfFeed.read(member, "blog.example") for member in members)}
    await redis.command("DEL", SET)
    for name in NAMES:
        key = keys.former_duplicates(shared(name))
        for ids in made:
            await redis.command("SADD", key, posts[ids[name]].former_member())
            await redis.command("HSET", keys.item(ids[name]), "twin", shared(name))
        await redis.command("EXPIRE", key, 1000)
    await redis.command("SET", keys.schema(), FIRST)
    await migrate(redis)
    return made


async def sets(redis: Redis) -> int:
    """Number of sets of layout 8."""
    return sum(await redis.pipeline([("EXISTS", keys.former_duplicates(shared(name))) for name in NAMES]))


async def known(redis: Redis, made: list[dict[str, str]]) -> list[list[str]]:
    """The duplicates that each post knows, feed by feed."""
    items = await Items(redis).timeline_items([one for ids in made for one in ids.values()])
    return [[other.item for other in item.duplicates] for item in items]


def others(made: list[dict[str, str]]) -> list[list[str]]:
    """The duplicates that each post has."""
    return [[ids[name] for ids in made if ids is not mine] for mine in made for name in mine]


async def test_copies_of_earlier_data_know_each_other_before_and_after(redis):
    """A dry run says how many there are, and about what is freed. Then there is nothing to do."""
    made = await of_layout_8(redis)
    assert await known(redis, made) == others(made)
    foreseen = await repacking(redis).foresee()
    assert await sets(redis) == 3
    done = await repacking(redis).run()
    assert foreseen.shortened == done.shortened == 6
    assert (foreseen.before, foreseen.after) == (done.before, done.after)
    assert done.before - done.after > 6 * 100
    assert await known(redis, made) == others(made)
    assert await sets(redis) == 0
    assert await redis.command("HGET", keys.item(made[0]["one"]), "twin") == duplicates.short(shared("one")).encode()
    assert await redis.command("TTL", SET) > 300 * 86400
    assert (await repacking(redis).run()).shortened == (await repacking(redis).foresee()).shortened == 0


async def test_a_new_copy_knows_those_of_earlier_data(redis):
    """Before upkeep has come to them."""
    made = await of_layout_8(redis)
    made.append(await store(redis, FEEDS[2]))
    assert await known(redis, made) == others(made)
    await repacking(redis).run()
    assert await known(redis, made) == others(made)


async def test_a_post_that_its_feed_still_lists_is_registered_once(redis):
    """The next reading of the feed shortens its digest, too; the set has each post once."""
    made = await of_layout_8(redis)
    await store(redis, FEEDS[0], NOON + 40 * 86400)
    assert await known(redis, made) == others(made)
    assert await redis.command("ZCARD", SET) == 6
    assert await sets(redis) == 0


async def test_killed_anywhere_copies_still_know_each_other(real_redis: Redis) -> None:
    """The packing, killed after any round trip and repeated."""
    redis, made = Killing(real_redis), list[list[dict[str, str]]]()

    async def begin() -> None:
        made.append(await of_layout_8(redis))

    async def again() -> None:
        assert await known(redis, made[-1]) == others(made[-1])
        await redis.command("DEL", keys.lease("packing"))  # as when it has run out
        await repacking(redis).run()

    async def state() -> object:
        rows = await redis.pipeline([("HGETALL", keys.item(one)) for ids in made[-1] for one in ids.values()])
        return rows, await known(redis, made[-1]), await all_keys(redis)

    assert await killed_anywhere(redis, begin, repacking(redis).run, state, again) > 5


@pytest.mark.parametrize("after", range(1, 6))
async def test_copies_that_move_during_a_look_up_are_found(redis, after):
    """Redis may run the commands of others between those of a pipeline; on a cluster, they are on several masters."""
    made = await of_layout_8(redis)
    slow = MovesBetween(redis, after)
    items = await Items(slow).timeline_items([made[0]["one"], made[0]["two"]])
    assert [[other.item for other in item.duplicates] for item in items] == [[made[1]["one"]], [made[1]["two"]]]
    assert await sets(redis) == 0


class MovesBetween(Wrapped):
    """Runs look-ups command by command; after some of them, upkeep moves all former sets."""

    def __init__(self, redis: Redis, after: int) -> None:
        super().__init__(redis)
        self._after = after

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        if not any(command[0] == "ZRANGEBYSCORE" for command in commands):
            return list(await super().pipeline(commands))
        first = await super().pipeline(commands[: self._after])
        await repacking(self._redis).run()
        return [*first, *(await super().pipeline(commands[self._after :]))]


async def test_a_deleted_post_leaves_both_sets(redis):
    """Of that layout and of this one."""
    made = await of_layout_8(redis)
    post = PostOfFeed(made[0]["one"], "1", "blog.example", "blog.example")
    assert post.former_member().encode() in await redis.command("SMEMBERS", keys.former_duplicates(shared("one")))
    await duplicates.register(redis, [(duplicates.short(shared("one")), post)], NOON)
    await redis.pipeline(duplicates.unregister(redis, shared("one"), post))
    assert (await Items(redis).timeline_items([made[1]["one"]]))[0].duplicates == ()


def test_a_digest_keeps_64_bits() -> None:
    """In 11 characters, whatever its form before; other texts stay as they are."""
    digests = {duplicates.short(shared(str(number))) for number in range(1000)}
    assert len(digests) == 1000
    assert {len(one) for one in digests} == {11}
    assert duplicates.short(shared("a")) == duplicates.short(duplicates.short(shared("a")))
    assert duplicates.short("a") == "a"
