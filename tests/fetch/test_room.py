"""How many bytes of bodies are in memory at once."""

from __future__ import annotations

import asyncio
import gc

from microsub.fetch.body import Room, Share


async def test_small_bodies_take_no_room() -> None:
    """Nothing is counted below the free size, and only what lies above it afterwards."""
    room = Room(total=100, free=10)
    share = room.share()
    await share.grow(10)
    assert room.used == 0
    await share.grow(5)
    assert room.used == 5


async def test_room_is_given_back_with_the_last_reference() -> None:
    """The caller needn't know that a document takes room."""
    room = Room(total=100, free=0)
    share = room.share()
    await share.grow(60)
    share.settle()
    assert room.used == 60
    del share
    gc.collect()
    assert room.used == 0


async def test_bodies_wait_for_room() -> None:
    """A body grows no further while others take all, and goes on when one of them is dropped."""
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
    """When all of the room is taken by bodies that are still arriving, the oldest may go on; then the next."""
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
    """What has arrived and is being worked on leaves nobody beyond the bound: it will be dropped by itself."""
    room = Room(total=100, free=0)
    held: list[Share] = []
    for _ in range(2):
        share = room.share()
        await share.grow(50)
        share.settle()
        held.append(share)
    third = room.share()
    waiting = asyncio.create_task(third.grow(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    held.pop().close()
    await asyncio.wait_for(waiting, 60)
    assert room.used <= 100
