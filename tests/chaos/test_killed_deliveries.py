"""A feed with many followers, whose workers die again and again during delivery."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path

import orjson
import pytest

from microsub.feeds.record import FeedRecord
from microsub.redis import keys
from microsub.redis.connect import connect
from microsub.server.jobs import STAGES
from microsub.work import backlogs
from tests.chaos.storm import Blog, start_worker
from tests.support.cluster import running_server
from tests.support.polling import World, world
from tests.support.waiting import wait_until
from tests.support.web import publisher

KILLS = int(os.environ.get("CHAOS_KILLS", "4"))
SEED = int(os.environ.get("CHAOS_SEED") or random.randrange(10**6))
FOLLOWERS = 1200
BATCHES = FOLLOWERS // 20
"""Round trips of one delivery (`delivery.AT_ONCE`)."""
IN_A_ROW = 4
"""Workers that die before one may finish: a message that many have died with becomes a dead letter."""
USERS = [f"user{number}" for number in range(FOLLOWERS)]


@pytest.mark.timeout(600 + KILLS * 10)
async def test_killed_deliveries_lose_and_double_nothing(tmp_path: Path) -> None:
    """1,200 timelines have each post once, although workers were killed with SIGKILL in between; the check is clean."""
    print(f"CHAOS_SEED={SEED}")
    chance, blog = random.Random(SEED), Blog("/feed")
    with running_server(tmp_path / "redis") as server:
        url = f"redis://127.0.0.1:{server.port}"
        redis = await connect(url)
        async with publisher() as site, world(redis) as it:
            feed = await followed_by_all(it, site.url(blog.path, "blog.test"))
            for number in range(1, KILLS + 1):
                blog.posts.append((number, it.clock()))
                site.serve_document(blog.path, blog.document())
                await it.make_due(feed)
                await die_delivering(tmp_path / f"worker{number}.log", url, chance.randrange(2, BATCHES))
                have = Counter(item for timeline in await timelines(it) for item in timeline)
                assert any(count < FOLLOWERS for count in have.values()), "it died in the middle"
                if number % IN_A_ROW == 0 or number == KILLS:
                    await finish(it, tmp_path / f"calm{number}.log", url, number)
            found = Counter(tuple(timeline) for timeline in await numbered(it))
            assert found == {tuple(range(1, KILLS + 1)): FOLLOWERS}
            assert (await it.check()).is_clean
        await redis.aclose()


async def followed_by_all(it: World, url: str) -> FeedRecord:
    """The feed, with one follower per timeline."""
    for start in range(0, FOLLOWERS, 100):
        await asyncio.gather(*(it.follow_unscheduled(url, user) for user in USERS[start : start + 100]))
    return await it.follow(url, USERS[0])


async def die_delivering(log: Path, url: str, trip: int) -> None:
    """Run a worker that dies before or after adding to so many batches of timelines."""
    process = start_worker(log, url, str(trip), "timeline_add")
    code = await process.wait()
    assert code == -signal.SIGKILL, log.read_text()[-2000:]


async def finish(it: World, log: Path, url: str, posts: int) -> None:
    """Let a worker finish without kills, until every timeline has so many posts and no message waits."""
    process = start_worker(log, url, "0")

    async def is_done() -> bool:
        waiting = await backlogs(it.redis, STAGES)
        return not any(one.messages for one in waiting.values()) and all(
            len(timeline) >= posts for timeline in await timelines(it)
        )

    try:
        await wait_until(is_done)
    finally:
        process.terminate()
        await process.wait()


async def timelines(it: World) -> list[list[bytes]]:
    """The ids of all items in each timeline."""
    found: list[list[bytes]] = await it.redis.pipeline([("ZRANGE", keys.posts(user, "home"), 0, -1) for user in USERS])
    return found


async def numbered(it: World) -> list[list[int]]:
    """The numbers of all posts in each timeline, duplicates included."""
    everywhere = await timelines(it)
    ids = sorted({item.decode() for timeline in everywhere for item in timeline})
    posts = [orjson.loads(data or b"{}") for data in await it.items.data(ids)]
    numbers = {item: int(post["url"].rpartition("/")[2]) for item, post in zip(ids, posts, strict=True)}
    return [sorted(numbers[item.decode()] for item in timeline) for timeline in everywhere]
