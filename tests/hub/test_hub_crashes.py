"""A hub process may die between any two steps: no delivery is lost, and no subscription changes without a request."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from microsub.hub.store import CLAIM
from microsub.redis.protocol import Redis
from tests.support.redis_wrappers import KilledError, Killing
from tests.support.subscriber import HubClient, hub_client
from tests.support.web import Answer

pytestmark = pytest.mark.usefixtures("quiet")


def another_process(client: HubClient) -> None:
    """Lets a new process take over from the dead worker."""
    client.server.hub_worker = replace(client.server).hub_worker


async def killed(client: HubClient, killing: Killing, step: int) -> None:
    """Runs due work and dies at `step`; another worker continues when the claims have expired."""
    with contextlib.suppress(KilledError), killing.dying(step):
        await client.work()
    another_process(client)
    for _ in range(3):
        await client.work(CLAIM)


async def test_killed_while_it_delivers(real_redis: Redis) -> None:
    """Each change reaches the callback, at whichever step the worker died."""
    killing = Killing(real_redis)
    async with hub_client(killing) as client:
        app = await client.subscribe()
        with killing.dying(0):
            await client.publish("undisturbed")
        steps = killing.steps
        for step in range(1, steps + 1):
            await client.arrive(f"step {step}")
            await killed(client, killing, step)
            assert f'"step {step}"'.encode() in app.bodies[-1], f"killed at step {step} of {steps}"
        assert len(app.bodies) <= 2 * steps + 1
        assert (await client.server.check()).is_clean
    assert steps > 8


async def test_killed_while_it_verifies(real_redis: Redis) -> None:
    """Each request to subscribe or unsubscribe is verified."""
    killing = Killing(real_redis)
    async with hub_client(killing) as client:
        app = client.callback()
        step, steps = -1, 0
        while step < steps:
            step += 1
            for mode in ("subscribe", "unsubscribe"):
                form = {"hub.mode": mode, "hub.callback": app.url, "hub.topic": client.topic}
                assert (await client.post(form)).status_code == 202
                if not step:
                    with killing.dying(0):
                        await client.work()
                    steps = max(steps, killing.steps)
                else:
                    await killed(client, killing, step)
                assert app.verifications[-1]["hub.mode"] == mode
                before = len(app.bodies)
                await client.publish(f"{mode} {step}")
                assert len(app.bodies) == before + (mode == "subscribe"), f"killed at step {step} of {steps}"
    assert steps > 8


async def test_several_workers_deliver_once(real_redis: Redis) -> None:
    """Only one worker at a time processes a delivery."""
    async with hub_client(real_redis) as client:
        apps = [await client.subscribe(path=f"/callback{number}") for number in range(20)]
        workers = [replace(client.server).hub_worker for _ in range(4)]
        await client.arrive("second")
        for _ in range(3):
            client.server.now += 0.2
            await asyncio.gather(*(worker.run_once() for worker in workers))
        assert [len(app.bodies) for app in apps] == [1] * 20


async def test_a_frozen_worker_loses_its_work(real_redis: Redis) -> None:
    """Another worker repeats its deliveries, and its own late result changes nothing."""
    async with hub_client(real_redis) as client:
        app = await client.subscribe()
        client.site.open.clear()
        await client.arrive("second")
        client.server.now += 0.2
        frozen = asyncio.create_task(client.server.hub_worker.run_once())
        while not client.site.in_flight:
            await asyncio.sleep(0.01)
        another_process(client)
        client.server.now += CLAIM
        other = asyncio.create_task(client.server.hub_worker.run_once())
        while client.site.in_flight < 2:
            await asyncio.sleep(0.01)
        client.site.open.set()
        await asyncio.gather(frozen, other)
        assert len(app.bodies) == 2
        await client.publish("third")
        assert len(app.bodies) == 3


async def test_a_request_during_verification_is_verified_next(real_redis: Redis) -> None:
    """The later request counts, whatever the result of the earlier one."""
    async with hub_client(real_redis) as client:
        app = client.callback()
        client.site.open.clear()
        form = {"hub.mode": "subscribe", "hub.callback": app.url, "hub.topic": client.topic}
        assert (await client.post({**form, "hub.secret": "one"})).status_code == 202
        working = asyncio.create_task(client.work())
        while not client.site.in_flight:
            await asyncio.sleep(0.01)
        assert (await client.post({**form, "hub.lease_seconds": "7200"})).status_code == 202
        client.site.open.set()
        await working
        await client.work(2)
        assert [one["hub.lease_seconds"] for one in app.verifications] == ["864000", "7200"]
        await client.publish("second")
        assert "x-hub-signature" not in app.deliveries[-1].headers


async def test_a_change_during_a_delivery_is_delivered_next(real_redis: Redis) -> None:
    """The current delivery doesn't hide the later change."""
    async with hub_client(real_redis) as client:
        app = await client.subscribe()
        client.site.open.clear()
        await client.arrive("second")
        working = asyncio.create_task(client.work())
        while not client.site.in_flight:
            await asyncio.sleep(0.01)
        await client.arrive("third")
        client.site.open.set()
        await working
        await client.work()
        await client.work()
        assert b'"third"' in app.bodies[-1]
        assert len(app.bodies) == 2


async def test_redis_that_fails_is_waited_for(real_redis: Redis) -> None:
    """A delivery is repeated if its result couldn't be stored."""
    from microsub.base.errors import StoreUnavailable

    failing = Killing(real_redis)
    failing.error = StoreUnavailable
    async with hub_client(failing) as client:
        app = await client.subscribe()
        app.answer = Answer(status=204)
        await client.arrive("second")
        with contextlib.suppress(StoreUnavailable), failing.dying(6):
            await client.work()
        await client.work(CLAIM)
        await client.work(CLAIM)
        assert b'"second"' in app.bodies[-1]
