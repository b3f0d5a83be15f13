"""The limit for bytes of bodies that are in memory at the same time."""

from __future__ import annotations

import asyncio
import gc
import gzip
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from microsub.fetch import body
from microsub.fetch.body import Body, Room, Share
from microsub.fetch.transport import Reply
from tests.support.waiting import wait_until


async def test_small_bodies_take_no_room() -> None:
    """Bytes up to the free size aren't counted; above it, only the excess is counted."""
    room = Room(total=100, free=10)
    share = room.share()
    await share.grow(10)
    assert room.used == 0
    await share.grow(5)
    assert room.used == 5


async def test_room_is_given_back_with_the_last_reference() -> None:
    """The caller doesn't need to release a document's room."""
    room = Room(total=100, free=0)
    share = room.share()
    await share.grow(60)
    share.settle()
    assert room.used == 60
    del share
    gc.collect()
    assert room.used == 0


async def test_bodies_wait_for_room() -> None:
    """A body stops growing while others use all room, and continues when one of them is dropped."""
    room = Room(total=100, free=0)
    first, second = room.share(), room.share()
    await first.grow(90)
    first.settle()
    waiting = asyncio.create_task(second.grow(20))
    await asyncio.sleep(0)
    assert not second.fits(20)
    assert not waiting.done()
    first.close()
    await asyncio.wait_for(waiting, 60)
    assert room.used == 20


async def test_bodies_that_wait_for_each_other_come_to_an_end() -> None:
    """If arriving bodies use all of the room, the oldest one may continue, then the next one."""
    room = Room(total=100, free=0)
    done: list[int] = []

    async def arrive(number: int) -> None:
        share = room.share()
        for _ in range(10):
            await share.grow(10)
            await asyncio.sleep(0)
        share.settle()
        done.append(number)
        share.close()

    await asyncio.wait_for(asyncio.gather(*(arrive(number) for number in range(20))), 60)
    assert len(done) == 20
    assert room.used == 0


async def test_the_bound_is_exceeded_by_one_body_at_most() -> None:
    """Complete bodies don't let another body exceed the bound, because their room becomes free anyway."""
    room = Room(total=100, free=0)
    held: list[Share] = []
    for user in ("ann", "bob"):
        share = room.share([user])
        await share.grow(50)
        share.settle()
        held.append(share)
    third = room.share(["cat"])
    waiting = asyncio.create_task(third.grow(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    held.pop().close()
    await asyncio.wait_for(waiting, 60)
    assert room.used <= 100


async def test_heavy_users_leave_half_of_the_room_to_others() -> None:
    """Documents that wait for a parser don't block other users' documents; a feed counts for its follower with the
    least.
    """
    room = Room(total=100, free=0)
    heavy, further = room.share(["mal"]), room.share(["mal"])
    await heavy.grow(40)
    heavy.settle()
    waiting = asyncio.create_task(further.grow(20))
    await asyncio.sleep(0)
    assert not further.fits(20)
    shared = room.share(["mal", "bob"])
    await asyncio.wait_for(shared.grow(50), 60)
    shared.settle()
    assert not waiting.done()
    heavy.close()
    await asyncio.wait_for(waiting, 60)
    assert room.used == 70


async def test_compressed_bodies_wait_for_room_before_expansion(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes that expand to megabytes aren't expanded while they wait."""
    made: list[Body] = []

    class Noted(Body):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    async def parts() -> AsyncIterator[bytes]:
        yield gzip.compress(bytes(8 * 1024 * 1024))

    monkeypatch.setattr(body, "Body", Noted)
    room = Room(total=1024 * 1024)
    held = room.share(["ann"])
    await held.grow(2 * 1024 * 1024)
    held.settle()
    reply = cast(Reply, SimpleNamespace(parts=parts()))
    async with asyncio.timeout(None) as clock:
        reading = asyncio.create_task(body.read_body(reply, {"content-encoding": "gzip"}, 1 << 24, room, clock))
        await wait_until(lambda: made and made[0].length)
        assert made[0].length <= 512 * 1024
        held.close()
        whole, share = await asyncio.wait_for(reading, 60)
    assert len(whole) == 8 * 1024 * 1024
    share.close()
    assert room.used == 0
