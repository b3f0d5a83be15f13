"""Bodies that are too long, too slow or of another kind than declared; documents that attack their readers."""

from __future__ import annotations

import asyncio

import pytest

from tests.hostile import bodies, documents
from tests.hostile.machine import Machine, Watch, polled, stores
from tests.hostile.memory import MIB
from tests.hostile.publisher import Asked, publisher
from tests.hostile.running import others_are_polled, run
from tests.support.polling import dated, rss
from tests.support.waiting import wait_until

CASES = bodies.CASES | documents.CASES
CROWD = 8


async def test_a_crowd_of_large_bodies(machine: Machine) -> None:
    """Eight publishers send 6 MB each and then pause: the bodies are never all in memory at once.

    The others wait for memory, and small feeds don't wait.
    """
    enough = asyncio.Event()

    async def dawdle(visit: Asked) -> None:
        await visit.head(bodies.XML, f"Content-Length: {7 * MIB}")
        await visit.send(bytes(6 * MIB))
        while not enough.is_set():
            await visit.send(b"x")
            await asyncio.sleep(0.2)

    async with (
        publisher({"/feed": dawdle}, good=b"") as site,
        publisher({}, good=rss(dated(2))) as good,
        stores(machine) as it,
        Watch(machine) as watch,
    ):
        feeds = [await it.follow(f"http://crowd{n}.test:{site.port}/feed", uid="crowd") for n in range(CROWD)]
        await wait_until(lambda: len(site.asked) == CROWD)
        await others_are_polled(it, "crowd", 0, good)
        assert [(await it.record(feed)).last_poll for feed in feeds] == [None] * CROWD
        enough.set()
        await wait_until(lambda: polled(it, feeds, 0.0))
        for feed in feeds:
            assert ((await it.record(feed)).last_error or "").startswith("protocol")
    watch.check()


@pytest.mark.parametrize("name", CASES)
async def test_documents(machine: Machine, name: str) -> None:
    """For every body and document, the feed's health names the problem; the resulting posts are small and harmless."""
    await run(machine, name, CASES[name])
