"""The digest that copies of a post share, and copies of earlier data, which had the whole digest."""

from __future__ import annotations

import hashlib

from microsub.feeds.record import Feeds
from microsub.posts import duplicates
from microsub.posts.duplicates import PostOfFeed
from microsub.posts.ingest import PostWriter
from microsub.posts.items import Items
from microsub.posts.repacking import Repacking
from microsub.redis import keys
from microsub.redis.migrations import SHORT_DIGESTS, migrate
from microsub.redis.protocol import Redis
from tests.support.invariants import all_keys
from tests.support.posts import NOON, candidate
from tests.support.redis_wrappers import Killing, killed_anywhere

FEEDS = ("https://blog.example/atom", "https://blog.example/rss", "https://blog.example/json")
NAMES = ("one", "two", "three")


def shared(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


async def no_pause(_seconds: float) -> None:
    return None


def repacking(redis: Redis) -> Repacking:
    return Repacking(redis, pause=no_pause)


async def store(redis: Redis, url: str, now: float = NOON) -> dict[str, str]:
    """The ids of the posts in that feed, by name."""
    feed = await Feeds(redis).ensure(url, NOON)
    posts = [candidate(name, common=shared(name)) for name in NAMES]
    await PostWriter(redis).write(feed, posts, now)
    found = await redis.command("HMGET", keys.feed_guids(feed.id), *(one.guid for one in posts))
    return {name: item.decode() for name, item in zip(NAMES, found, strict=True)}


async def of_layout_11(redis: Redis, urls: tuple[str, ...] = FEEDS[:2]) -> list[dict[str, str]]:
    """Posts in several feeds as that layout has them, after the migration."""
    made = [await store(redis, url) for url in urls]
    for name in NAMES:
        new = keys.duplicates(duplicates.short(shared(name)))
        members = await redis.command("SMEMBERS", new)
        await redis.pipeline([("DEL", new), ("SADD", keys.duplicates(shared(name)), *members)])
        await redis.command("EXPIRE", keys.duplicates(shared(name)), 1000)
        for ids in made:
            await redis.command("HSET", keys.item(ids[name]), "twin", shared(name))
    await redis.command("SET", keys.schema(), SHORT_DIGESTS - 1)
    await migrate(redis)
    return made


async def known(redis: Redis, made: list[dict[str, str]]) -> list[list[str]]:
    """The duplicates that each post knows, feed by feed."""
    items = await Items(redis).timeline_items([one for ids in made for one in ids.values()])
    return [[other.item for other in item.duplicates] for item in items]


def others(made: list[dict[str, str]]) -> list[list[str]]:
    """The duplicates that each post has."""
    return [[ids[name] for ids in made if ids is not mine] for mine in made for name in mine]


async def test_copies_of_earlier_data_know_each_other_before_and_after(redis):
    """A dry run says how many there are, and about what is freed. Then there is nothing to do."""
    made = await of_layout_11(redis)
    assert await known(redis, made) == others(made)
    foreseen = await repacking(redis).foresee()
    assert await redis.command("EXISTS", *(keys.duplicates(shared(name)) for name in NAMES)) == 3
    done = await repacking(redis).run()
    assert foreseen.shortened == done.shortened == 6
    assert (foreseen.before, foreseen.after) == (done.before, done.after)
    assert done.before - done.after == 6 * 2 * (64 - 22)
    assert await known(redis, made) == others(made)
    assert not [name for name in await all_keys(redis) if len(name) > 60]
    assert await redis.command("HGET", keys.item(made[0]["one"]), "twin") == duplicates.short(shared("one")).encode()
    assert await redis.command("TTL", keys.duplicates(duplicates.short(shared("one")))) > 300 * 86400
    assert (await repacking(redis).run()).shortened == (await repacking(redis).foresee()).shortened == 0


async def test_a_new_copy_knows_those_of_earlier_data(redis):
    """Before upkeep has come to them."""
    made = await of_layout_11(redis)
    made.append(await store(redis, FEEDS[2]))
    assert await known(redis, made) == others(made)
    await repacking(redis).run()
    assert await known(redis, made) == others(made)


async def test_a_post_that_its_feed_still_lists_is_registered_once(redis):
    """The next reading of the feed shortens its digest, too; the sets have each post once."""
    made = await of_layout_11(redis)
    await store(redis, FEEDS[0], NOON + 40 * 86400)
    assert await known(redis, made) == others(made)
    for name in NAMES:
        assert await redis.command("SCARD", keys.duplicates(duplicates.short(shared(name)))) == 2
    assert await redis.command("EXISTS", *(keys.duplicates(shared(name)) for name in NAMES)) == 0


async def test_killed_anywhere_copies_still_know_each_other(real_redis: Redis) -> None:
    """The packing, killed after any round trip and repeated."""
    redis, made = Killing(real_redis), list[list[dict[str, str]]]()

    async def begin() -> None:
        made.append(await of_layout_11(redis))

    async def again() -> None:
        assert await known(redis, made[-1]) == others(made[-1])
        await redis.command("DEL", keys.lease("packing"))  # as when it has run out
        await repacking(redis).run()

    async def state() -> object:
        rows = await redis.pipeline([("HGETALL", keys.item(one)) for ids in made[-1] for one in ids.values()])
        return rows, await known(redis, made[-1]), await all_keys(redis)

    assert await killed_anywhere(redis, begin, repacking(redis).run, state, again) > 5


async def test_a_deleted_post_leaves_both_sets(redis):
    """Of layout 11 and of this one."""
    made = await of_layout_11(redis)
    post = PostOfFeed(made[0]["one"], "1", "blog.example", "blog.example")
    (member,) = [
        one for one in await redis.command("SMEMBERS", keys.duplicates(shared("one"))) if one == post.member().encode()
    ]
    await redis.command("SADD", keys.duplicates(duplicates.short(shared("one"))), member)
    await redis.pipeline(duplicates.unregister(shared("one"), post))
    assert (await Items(redis).timeline_items([made[1]["one"]]))[0].duplicates == ()
    await redis.command("DEL", keys.duplicates(duplicates.short(shared("one"))))


def test_a_digest_keeps_128_bits() -> None:
    """In 22 characters; other texts stay as they are."""
    digests = {duplicates.short(shared(str(number))) for number in range(1000)}
    assert len(digests) == 1000
    assert {len(one) for one in digests} == {22}
    assert duplicates.short(duplicates.short(shared("a"))) == duplicates.short(shared("a"))
    assert duplicates.short("a") == "a"
