"""The clock was ahead for a moment: data written then blocks nothing once the clock is right again."""

from __future__ import annotations

from microsub.feeds.record import Feeds
from microsub.posts import garbage
from microsub.posts.ingest import PostWriter
from microsub.redis import keys
from microsub.redis.attempts import AttemptCounts
from microsub.redis.presence import Presence
from microsub.redis.protocol import Redis
from tests.support.posts import NOON, candidate

YEARS = 10 * 365 * 86400.0


async def test_no_pause_lasts_for_years(redis: Redis) -> None:
    """The pause after failed attempts is never longer than the longest configured one."""
    attempts = AttemptCounts(redis)
    assert await attempts.take("ann", [60, 600], NOON + YEARS) == (0, 1)
    assert await attempts.take("ann", [60, 600], NOON) == (0, 2)
    assert (await attempts.take("ann", [60, 600], NOON + 1))[0] > 590


async def test_no_dead_worker_looks_alive(redis: Redis) -> None:
    """Its sign of life is removed by the next one of a worker with the right clock."""
    presence = Presence(redis)
    await presence.beat("dead", NOON + YEARS)
    await presence.beat("living", NOON)
    assert await presence.alive(NOON) == ["living"]
    assert await presence.last_sign() == NOON


async def test_marks_from_the_future_are_set_again(redis: Redis) -> None:
    """Otherwise no sweep would ever delete it; a time that isn't ahead stays."""
    feed = await Feeds(redis).ensure("https://blog.example/feed", NOON)
    (stored,) = (await PostWriter(redis).write(feed, [candidate("a")], NOON)).new
    for now, mark in ((NOON + YEARS, NOON + YEARS), (NOON, NOON), (NOON + 60, NOON)):
        await garbage.condemn(redis, [stored.id], now)
        assert [float(one.condemned) for one in await garbage.candidates(redis, [stored.id])] == [mark]


async def test_a_reading_from_the_future_ends_no_tombstone(redis: Redis) -> None:
    """Otherwise it would come back as a new post."""
    feeds = Feeds(redis)
    feed = await feeds.ensure("https://blog.example/feed", NOON)
    (stored,) = (await PostWriter(redis).write(feed, [candidate("a")], NOON)).new
    doomed = await garbage.candidates(redis, [stored.id])
    await garbage.erase(redis, await garbage.retire(redis, doomed, NOON, wanted_too=True))
    await feeds.update(feed.id, {"last_read": f"{NOON + YEARS:.3f}"})
    assert await garbage.forget_tombstones(redis, [feed.id], NOON) == 0
    assert await redis.command("HLEN", keys.feed_guids(feed.id)) == 1
