"""The pipeline's queues: nothing is lost, nothing stays, and what a dead consumer had goes to another one."""

from __future__ import annotations

import asyncio

import pytest

from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.streams import GROUP, Backlog, Bounds, Message, Stream, backlogs

ONE = {"kind": b"a", "body": b"\x00\xff"}
TWO = {"kind": b"b", "body": b"12345"}


@pytest.fixture
def stream(redis: Redis) -> Stream:
    return Stream(redis, "stored")


async def test_messages_arrive_in_order_and_byte_for_byte(stream):
    """What was added is taken in the same order, with every byte."""
    ids = await stream.add([ONE, TWO])
    taken = await stream.take("worker-1", 10)
    assert [message.id for message in taken] == ids
    assert [message.fields for message in taken] == [ONE, TWO]


async def test_a_message_goes_to_one_consumer(stream):
    """Two consumers share the messages, none gets one that the other has."""
    await stream.add([ONE, TWO])
    first, second = await stream.take("worker-1", 1), await stream.take("worker-2", 10)
    assert [len(first), len(second)] == [1, 1]
    assert first[0].id != second[0].id
    assert await stream.take("worker-3", 10) == []


async def test_an_empty_stream_gives_nothing(stream):
    """Asking before anything was ever added is no error."""
    assert await stream.take("worker-1", 10) == []
    assert await stream.take_over("worker-1", 0, 10) == []
    assert await stream.backlog() == Backlog(0, 0)
    assert await stream.forget_consumers(3600) == 0


async def test_the_backlog_counts_until_a_message_is_done(stream):
    """A message in hand still waits; when it is done, it and its bytes are gone, however often that is said."""
    await stream.add([ONE, TWO])
    assert await stream.backlog() == Backlog(2, 9)
    taken = await stream.take("worker-1", 10)
    assert await stream.backlog() == Backlog(2, 9)
    await stream.done(taken[:1])
    await stream.done(taken[:1])
    assert await stream.backlog() == Backlog(1, 6)
    await stream.done(taken)
    assert await stream.backlog() == Backlog(0, 0)


async def test_a_dead_consumers_message_is_taken_over(stream):
    """After its idle time a message goes to who asks, as its second delivery; the former owner has lost it."""
    await stream.add([ONE])
    (message,) = await stream.take("dead", 10)
    assert await stream.take_over("alive", 60, 10) == []
    (again,) = await stream.take_over("alive", 0, 10)
    assert again == Message(message.id, ONE, deliveries=2)
    assert await stream.keep("dead", [message.id]) == set()
    assert await stream.keep("alive", [message.id]) == {message.id}


async def test_a_sign_of_life_keeps_a_message(real_redis):
    """A consumer that says that it is at work keeps what it has."""
    stream = Stream(real_redis, "stored")
    await stream.add([ONE])
    (message,) = await stream.take("slow", 1)
    while not await stream.keep("slow", [message.id]):
        await asyncio.sleep(0)
    assert await stream.take_over("hasty", 60, 1) == []
    rows = await real_redis.command("XPENDING", keys.stream("stored"), GROUP, "-", "+", 10)
    assert rows[0][1] == b"slow"
    assert rows[0][3] == 1


async def test_what_is_handed_back_is_taken_at_once_and_not_counted(real_redis):
    """A consumer that stops leaves its messages to the others, whatever their patience, as if it never had them."""
    stream = Stream(real_redis, "stored")
    await stream.add([ONE])
    taken = await stream.take("stopping", 1)
    await stream.hand_back("stopping", taken)
    (again,) = await stream.take_over("other", 3600, 10)
    assert again.deliveries == 1


async def test_only_the_owner_hands_back(real_redis):
    """A message that was taken over meanwhile stays with its new owner."""
    stream = Stream(real_redis, "stored")
    await stream.add([ONE])
    taken = await stream.take("late", 1)
    await stream.take_over("owner", 0, 1)
    await stream.hand_back("late", taken)
    assert await stream.take_over("third", 3600, 10) == []


async def test_idle_names_are_forgotten_but_owners_never(stream):
    """A consumer with a message in hand stays known, else the message would be nobody's."""
    await stream.add([ONE, TWO])
    (message,) = await stream.take("owner", 1)
    await stream.done(await stream.take("idle", 1))
    forgotten = 0
    while not forgotten:
        forgotten = await stream.forget_consumers(0.001)
    assert forgotten == 1
    assert await stream.keep("owner", [message.id]) == {message.id}


async def test_backlogs_of_several_streams_take_one_round_trip(redis):
    """Streams that don't exist have no backlog."""
    await Stream(redis, "stored").add([ONE])
    assert await backlogs(redis, ["incomplete", "stored"]) == {"incomplete": Backlog(0, 0), "stored": Backlog(1, 3)}


def test_bounds_count_messages_and_bytes():
    """Either of the two fills a stream."""
    bounds = Bounds(messages=2, bytes=100)
    assert bounds.leave_room(Backlog(1, 99))
    assert not bounds.leave_room(Backlog(2, 0))
    assert not bounds.leave_room(Backlog(1, 100))
