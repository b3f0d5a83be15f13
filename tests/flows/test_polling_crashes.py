"""A process may die between any two steps of a poll: the next poll completes it, without loss or duplicates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from microsub.base.errors import StoreUnavailable
from microsub.polling.poll import PollResult
from microsub.redis.protocol import Redis
from microsub.work import Patience
from tests.support.polling import World, dated, rss, world
from tests.support.redis_wrappers import KilledError, Killing
from tests.support.waiting import wait_until
from tests.support.web import Publisher, publisher

pytestmark = pytest.mark.usefixtures("quiet")


IMPATIENT = Patience(idle=0.0, deliveries=1000)
"""The messages of a killed worker are taken over at once."""


async def _empty(redis: Redis) -> None:
    await redis.command("FLUSHDB")


async def _state(it: World) -> list[tuple[str, bool]]:
    rows = await it.rows()
    data = await it.items.data([row.id for row in rows])
    assert all(data)
    texts = [str(value).partition('"name":"')[2].partition('"')[0] for value in data]
    return [(text, row.is_read) for text, row in zip(texts, rows, strict=True)]


async def _first_poll(it: World, site: Publisher) -> None:
    site.serve_document("/feed", rss(dated(15)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.follow(site.url("/feed", "blog.test"), "bob")
    await _poll(it, feed.id)


async def _poll_with_news_and_edits(it: World, site: Publisher) -> None:
    site.serve_document("/feed", rss(dated(15)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.follow(site.url("/feed", "blog.test"), "bob")
    await it.poll_id(feed.id)
    news = dated(18)
    news[5] = (news[5][0], "Edited", news[5][2])
    site.serve_document("/feed", rss(news))
    await _poll(it, feed.id)


class _Ready(Exception):
    """Raised at the poll of a scenario that is to be killed."""

    def __init__(self, feed_id: str) -> None:
        self.feed_id = feed_id


async def _poll(it: World, feed_id: str) -> PollResult:
    raise _Ready(feed_id)


@pytest.mark.parametrize("scenario", [_first_poll, _poll_with_news_and_edits])
async def test_killed_between_any_two_steps(
    real_redis: Redis, scenario: Callable[[World, Publisher], Awaitable[None]]
) -> None:
    """Wherever the first attempt dies, one more poll leads to the same timelines as an undisturbed one."""

    async def ready(it: World, site: Publisher) -> str:
        await _empty(real_redis)
        with pytest.raises(_Ready) as found:
            await scenario(it, site)
        return found.value.feed_id

    killing = Killing(real_redis)
    async with publisher() as site, world(killing, patience=IMPATIENT) as it:
        for _ in range(2):  # after the first time, the process remembers that the user has no quota
            feed_id = await ready(it, site)
            with killing.dying(0):
                await it.poll_id(feed_id)
        wanted = await _state(it)
        assert killing.steps > 8
        for step in range(1, killing.steps + 1):
            feed_id = await ready(it, site)
            with pytest.raises(KilledError), killing.dying(step):
                await it.poll_id(feed_id)
            await it.poll_id(feed_id)
            assert await _state(it) == wanted, f"killed at step {step} of {killing.steps}"
            record = await it.feeds.get(feed_id)
            assert record is not None
            assert record.body_hash
            assert not await it.items.outbox(feed_id)


async def test_posts_of_a_killed_poll_arrive_after_an_edit(real_redis: Redis) -> None:
    """The store treats the post as edited, although no timeline has it yet."""
    killing = Killing(real_redis)
    async with publisher() as site, world(killing, patience=IMPATIENT) as it:

        async def ready() -> str:
            await _empty(real_redis)
            site.serve_document("/feed", rss(dated(2)))
            feed_id = (await it.follow(site.url("/feed", "blog.test"))).id
            await it.poll_id(feed_id)
            site.serve_document("/feed", rss(dated(3)))
            return feed_id

        async def edit(feed_id: str) -> list[tuple[str, bool]]:
            news = dated(3)
            news[0] = (news[0][0], "Edited", news[0][2])
            site.serve_document("/feed", rss(news))
            await it.poll_id(feed_id)
            return await _state(it)

        feed_id = await ready()
        with killing.dying(0):
            await it.poll_id(feed_id)
        wanted = await edit(feed_id)
        assert ("Edited", False) in wanted
        for step in range(1, killing.steps + 1):
            feed_id = await ready()
            with pytest.raises(KilledError), killing.dying(step):
                await it.poll_id(feed_id)
            assert await edit(feed_id) == wanted, f"killed at step {step} of {killing.steps}"
            assert not await it.items.outbox(feed_id)


async def test_a_worker_killed_at_any_step_of_a_turn(real_redis: Redis) -> None:
    """If lease, poll, plan or hand-back is cut off, the feed is polled and planned again after the lease."""
    killing = Killing(real_redis)
    async with publisher() as site, world(killing, patience=IMPATIENT) as it:

        async def ready() -> str:
            await _empty(real_redis)
            site.serve_document("/feed", rss(dated(12)))
            return (await it.follow(site.url("/feed", "blog.test"))).id

        await ready()
        with killing.dying(0):
            await it.worker.run_once()
        wanted = await _state(it)
        for step in range(1, killing.steps + 1):
            feed_id = await ready()
            with contextlib.suppress(KilledError), killing.dying(step):
                await it.worker.run_once()
            it.clock.advance(61)
            await it.worker.run_once()
            assert await _state(it) == wanted, f"killed at step {step} of {killing.steps}"
            record = await it.feeds.get(feed_id)
            assert record is not None
            assert record.next_poll is not None
            assert record.next_poll > it.clock()
            site.serve_document("/feed", rss(dated(13)))
            it.clock.advance(25 * 3600)
            assert await it.worker.run_once() == 1, f"not scheduled after step {step} of {killing.steps}"
            assert len(await it.rows()) == 13


async def test_a_redis_that_fails_during_a_turn(real_redis: Redis) -> None:
    """The worker continues: the turn ends, the feed stays due, and is polled when Redis is back."""
    broken = Killing(real_redis)
    broken.error = StoreUnavailable
    async with publisher() as site, world(broken, patience=IMPATIENT) as it:
        feed_id = ""
        for step in range(2, 12):
            await _empty(real_redis)
            site.serve_document("/feed", rss(dated(3)))
            # A host of its own: the failed turn of the last one is handed back in the background.
            feed_id = (await it.follow(site.url("/feed", f"blog{step}.test"))).id
            with pytest.raises(StoreUnavailable), broken.dying(step):  # from the stages after the turn
                await it.worker.run_once()
            it.clock.advance(61)
            assert await it.worker.run_once() == 1, f"failed at step {step}"
            assert len(await it.rows()) == 3
        record = await it.feeds.get(feed_id)
        assert record is not None
        assert record.last_error is None


async def test_a_worker_waits_for_a_redis_that_fails(real_redis: Redis) -> None:
    """While the schedule can't be read, nothing is requested, and stopping still works."""
    broken = Killing(real_redis)
    broken.error = StoreUnavailable
    async with publisher() as site, world(broken, patience=IMPATIENT) as it:
        site.serve_document("/feed", rss(dated(3)))
        await it.follow(site.url("/feed", "blog.test"))
        broken.kill_at = broken.trips
        running = asyncio.create_task(it.worker.run(0))
        before = broken.trips
        await wait_until(lambda: broken.trips >= before + 2)
        it.worker.stop()
        await running
        assert site.asked == []
        broken.kill_at = None
        assert await it.make_worker().run_once() == 1


async def test_a_worker_that_dies_gives_its_hosts_back(site: Publisher, real: World) -> None:
    """The lease expires, and another worker polls the feed."""
    site.serve_document("/feed", rss(dated(3)))
    await real.follow(site.url("/feed", "blog.test"))
    assert len(await real.schedule.take(real.clock(), 10, 30)) == 1
    assert await real.worker.run_once() == 0
    real.clock.advance(31)
    assert await real.worker.run_once() == 1
    assert len(await real.rows()) == 3
