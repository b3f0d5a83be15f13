"""A process may die between any two steps of a subscription or a delivery: a repetition leads to the same result."""

from __future__ import annotations

import contextlib

import pytest

from microsub.base.clock import DAY, HOUR
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.work import SHARDS, Patience
from tests.support.hub import hub
from tests.support.polling import world
from tests.support.push import BASE, Push
from tests.support.redis_wrappers import KilledError, Killing
from tests.support.web import publisher

pytestmark = pytest.mark.usefixtures("quiet")

IMPATIENT = Patience(idle=0.0, deliveries=1000)


async def _again(push: Push) -> None:
    """Simulates the next minutes: the dead worker's leases end, and all that is due is retried."""
    await push.it.redis.command("DEL", *(keys.lease(f"websub:{shard}") for shard in range(SHARDS)))
    for _ in range(4):
        push.it.clock.advance(0.5 * HOUR)
        await push.look()


async def test_killed_while_subscribing(real_redis: Redis) -> None:
    """If the server or a worker dies at any step, the feed ends up with one working subscription."""
    killing = Killing(real_redis)
    for step in killing.each_step():
        async with publisher() as site, world(killing, base_url=BASE, patience=IMPATIENT) as it:
            await real_redis.command("FLUSHDB")
            async with hub(site, it.client) as made:
                made.clock = it.clock
                push = Push(it, site, made)
                feed = await push.follow()
                await push.poll(feed)
                with contextlib.suppress(KilledError), killing.dying(step):
                    await push.look()
                    await push.look()
                await _again(push)
                if not made.callbacks:
                    # It died between storing the verification and answering the hub. The renewal repairs that;
                    # until then polls find the posts.
                    assert not (await push.health(feed)).pushed
                    it.clock.advance(5 * DAY)
                    await _again(push)
                assert len(made.callbacks) == 1, f"killed at step {step} of {killing.steps}"
                assert (await push.health(feed)).subscribed
                assert await push.deliver(push.document("second")) == [202]
                assert await push.shown() == ["second", "first"]
                assert (await it.check()).is_clean
    assert killing.steps > 8


async def test_killed_while_a_delivery_is_taken_in(real_redis: Redis) -> None:
    """A delivery that was answered with 2xx is stored exactly once; otherwise the hub sends it again."""
    killing = Killing(real_redis)
    async with (
        publisher() as site,
        world(killing, base_url=BASE, patience=IMPATIENT) as it,
        hub(site, it.client) as made,
    ):
        made.clock = it.clock
        push = Push(it, site, made)
        feed = await push.subscribe()
        (one,) = made.subscriptions.values()
        with killing.dying(0):
            await push.deliver(push.document("undisturbed"))
        for step in range(1, killing.steps + 1):
            body = push.document(f"step {step}")
            answered = False
            with contextlib.suppress(KilledError), killing.dying(step):
                answered = (await made.deliver(one.callback, body, one.secret)).is_success
                await it.stages.run_once()
            if not answered:
                assert (await made.deliver(one.callback, body, one.secret)).status_code == 202
            await it.stages.run_once()
            shown = await push.shown()
            assert shown[0] == f"step {step}", f"killed at step {step} of {killing.steps}"
            assert len(shown) == len(set(shown))
            assert not await it.items.outbox(feed.id)
            assert (await push.health(feed)).pushed
            it.clock.advance(30)
    assert killing.steps > 8
