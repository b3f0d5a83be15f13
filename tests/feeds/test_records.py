"""Feed records and their followers."""

import asyncio

import pytest

from microsub.feeds.record import KEEP_UNFOLLOWED, Feeds
from microsub.redis import keys
from tests.support.invariants import all_keys
from tests.support.posts import NOON

URL = "https://blog.example/feed"


@pytest.fixture
def feeds(redis):
    return Feeds(redis)


async def test_one_feed_per_url(feeds):
    """The spelling of the URL and simultaneous calls make no difference."""
    spellings = [URL, "HTTPS://Blog.Example/feed", "https://blog.example:443/feed#top"]
    records = await asyncio.gather(*(feeds.ensure(spellings[number % 3], NOON) for number in range(12)))
    assert len({record.id for record in records}) == 1
    assert (records[0].url, records[0].created) == (URL, NOON)
    assert await feeds.find(spellings[1]) == records[0].id
    assert await feeds.all_ids() == [records[0].id]
    assert await feeds.find("http://blog.example/feed") is None


async def test_a_lost_race_leaves_no_record(feeds, redis):
    """The second process to claim a URL deletes its record."""
    await asyncio.gather(*(Feeds(redis).ensure(URL, NOON) for _ in range(6)))
    assert len([name for name in await all_keys(redis) if name.startswith(b"feed:{")]) == 1


async def test_a_feed_that_has_expired_is_not_written_to(feeds, redis):
    """A late update writes nothing; requested again, the feed returns with its id."""
    feed = await feeds.ensure(URL, NOON)
    await redis.command("DEL", keys.feed(feed.id))
    assert not await feeds.update(feed.id, {"title": "x"})
    assert await feeds.get(feed.id) is None
    assert (await feeds.ensure(URL, NOON + 9)).id == feed.id
    assert await redis.command("TTL", keys.feed(feed.id)) > 0


async def test_a_feed_outlives_its_last_follower_by_thirty_days(feeds, redis):
    """All its keys get a time to live when the last follower leaves, and lose it when one comes."""
    feed = await feeds.ensure(URL, NOON)
    assert 0 < await redis.command("TTL", keys.feed(feed.id)) <= KEEP_UNFOLLOWED
    await feeds.subscribe(feed.id, "ann", "home")
    await redis.command("HSET", keys.feed_guids(feed.id), "g", 1)
    assert await redis.command("TTL", keys.feed(feed.id)) == -1
    await feeds.unsubscribe(feed.id, "ann", "home")
    for key in (keys.feed(feed.id), keys.feed_guids(feed.id)):
        assert 0 < await redis.command("TTL", key) <= KEEP_UNFOLLOWED
    await redis.command("EXPIRE", keys.feed(feed.id), 50)
    await feeds.unsubscribe(feed.id, "ann", "home")
    assert await redis.command("TTL", keys.feed(feed.id)) <= 50
    await feeds.subscribe(feed.id, "bob", "home")
    assert await redis.command("TTL", keys.feed_guids(feed.id)) == -1


async def test_a_move_to_a_known_feed_returns_it(feeds):
    """Nothing changes; the caller gets the known feed."""
    feed = await feeds.ensure(URL, NOON)
    other = await feeds.ensure("https://new.example/feed", NOON)
    assert await feeds.rename(feed.id, "https://new.example/feed") == other.id
    unchanged = await feeds.get(feed.id)
    assert unchanged is not None
    assert unchanged.url == URL


async def test_reading_numbers_grow_when_the_clock_jumps(feeds):
    """This holds even if the last number is in the future because the clock was ahead."""
    feed = await feeds.ensure(URL, NOON)
    numbers = []
    for _ in range(3):
        record, followers, _ = await feeds.begin_reading(feed.id)
        numbers.append(record.reading)
        assert not followers
    await feeds.update(feed.id, {"reading": "95617584000.000"})
    numbers += [(await feeds.begin_reading(feed.id))[0].reading for _ in range(2)]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 95617584000.002
    assert await feeds.begin_reading("999") is None


async def test_a_reading_writes_nothing_when_a_later_one_has_begun(feeds):
    """It writes neither fields nor a description nor its end; the later one writes them all."""
    feed = await feeds.ensure(URL, NOON)
    await feeds.subscribe(feed.id, "ann", "home")
    earlier, followers, _ = await feeds.begin_reading(feed.id)
    assert followers == {"ann"}
    later, _, _ = await feeds.begin_reading(feed.id)
    assert not await feeds.update(feed.id, {"etag": "old"}, earlier.reading)
    assert not (await feeds.describe(feed.id, {"title": "Old"}, {"etag": "old"}, earlier.reading))[0]
    assert not (await feeds.settle(feed.id, {"body_hash": "00"}, b"old", earlier.reading))[0]
    assert await feeds.get(feed.id) == later
    assert await feeds.update(feed.id, {"etag": "new"}, later.reading)
    assert (await feeds.describe(feed.id, {"title": "New"}, {}, later.reading))[0] == ("title",)
    assert (await feeds.settle(feed.id, {"body_hash": "00"}, b"new", later.reading))[0]
    assert await feeds.fingerprints(await feeds.get(feed.id)) == b"new"
