"""The process that stores a post may die between any two steps: repeating the request leads to one post."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import structlog.testing

from microsub.base.rate_limits import RateLimiter
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.work import Patience
from tests.micropub.conftest import SourceClient, items, source_of
from tests.support.posts import NOON
from tests.support.readers import instance
from tests.support.redis_wrappers import KilledError, Killing

IMPATIENT = Patience(idle=0.0, deliveries=1000)
JPEG = b"\xff\xd8\xff\xe0" + b"j" * 50


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disables rate limits, so that no test waits for a minute to pass."""
    monkeypatch.setattr(RateLimiter, "count", lambda *_: True)
    with structlog.testing.capture_logs():
        yield


def requests(step: int) -> list[dict[str, Any]]:
    """One request of each kind; each `step` makes a different post."""
    return [
        {"data": {"content": f"note {step}"}},
        {"data": {"content": f"status {step}", "uid": f"status {step}"}},
        {"data": {"content": f"picture {step}"}, "files": {"photo": ("a.jpg", JPEG + bytes([step]), "image/jpeg")}},
    ]


@pytest.mark.parametrize("kind", range(3), ids=["a note", "with a uid", "with a picture"])
async def test_killed_while_a_post_is_taken_in(real_redis: Redis, kind: int) -> None:
    """A post answered with 201 is in the channel exactly once; any other one is stored once when it is sent again."""
    killing = Killing(real_redis)
    async with instance(killing, now=NOON, patience=IMPATIENT) as server:
        alice = await server.reader("alice", "home")
        sender = await source_of(server, "alice")
        with killing.dying(0):
            await sender.send(**requests(0)[kind])
        steps = killing.steps
        for step in range(1, steps + 1):
            request = requests(step)[kind]
            with contextlib.suppress(KilledError), killing.dying(step):
                await sender.send(**request)
            await _the_dead_are_buried(server.redis)
            await sender.send(**request)
            texts = [item["content"]["text"] for item in await items(alice)]
            assert len(texts) == len(set(texts)) == step + 1, f"killed at step {step} of {steps}: {texts}"
            server.clock.advance(1)
        (feed,) = [one["_id"] for one in (await alice.get(action="follow", channel="home"))["items"]]
        assert not await server.items.outbox(feed)
        assert len(await server.parts.media.sizes("alice")) == (steps + 1 if kind == 2 else 0)
        assert (await server.check()).is_clean
    assert steps > 8


async def test_a_killed_process_holds_its_source_three_seconds(real_redis: Redis) -> None:
    """Another process stores the source's next post as soon as the lease of the dead one ends."""
    killing = Killing(real_redis)
    async with instance(killing, now=NOON, patience=IMPATIENT) as server:
        await server.reader("alice", "home")
        sender = await source_of(server, "alice")
        await sender.note("zero")
        held: list[bytes] = []
        for step in range(1, 20):
            with contextlib.suppress(KilledError), killing.dying(step):
                await sender.note(f"one {step}")
            if held := await real_redis.command("KEYS", keys.lease("saving:*")):
                break
        assert 0 < await real_redis.command("PTTL", *held) <= 3000
        await sender.note("two")


async def _the_dead_are_buried(redis: Redis) -> None:
    """Lets the leases of the dead process end."""
    for name in await redis.command("KEYS", keys.lease("*")):
        await redis.command("DEL", name)


async def test_killed_while_a_post_is_changed_or_deleted(real_redis: Redis) -> None:
    """Repeating the request leads to the same result."""
    killing = Killing(real_redis)
    async with instance(killing, now=NOON, patience=IMPATIENT) as server:
        alice = await server.reader("alice", "home")
        sender = await source_of(server, "alice")
        address = await sender.note("before")
        for action in ("update", "delete", "undelete"):
            step, over = 0, False
            while not over:
                step += 1
                request: dict[str, Any] = {"action": action, "url": address}
                if action == "update":
                    request["replace"] = {"content": [f"after {step}"]}
                with contextlib.suppress(KilledError), killing.dying(step):
                    await _sent(sender, request)
                    over = True
                await _the_dead_are_buried(server.redis)
                reply = await _sent(sender, request)
                texts = [item["content"]["text"] for item in await items(alice)]
                if action == "update":
                    assert texts == [f"after {step}"]
                elif action == "delete":
                    assert texts == []
                    address = (await _sent(sender, {"action": "undelete", "url": address})).headers["location"]
                else:
                    assert len(texts) == 1
                    address = reply.headers["location"]
                    await _sent(sender, {"action": "delete", "url": address})
            if action == "delete":
                await _sent(sender, {"action": "delete", "url": address})
        assert (await server.check()).is_clean


async def _sent(sender: SourceClient, request: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {sender.token}"}
    reply = await sender.server.client.post("/micropub", json=request, headers=headers)
    assert reply.status_code in {201, 204}, reply.text
    await sender.server.stages.run_once()
    return reply
