"""Streams between stages: nothing is lost, nothing stays, and messages of a dead consumer are taken over."""

from __future__ import annotations

import pytest

from microsub.redis.protocol import Redis
from microsub.work import Backlog, Bounds, Stream, backlogs

ONE = {"kind": b"a", "body": b"\x00\xff"}
TWO = {"kind": b"b", "body": b"12345"}


@pytest.fixture
def stream(redis: Redis) -> Stream:
    return Stream(redis, "stored")


async def test_the_backlog_counts_until_a_message_is_done(stream):
    """A message that is in work still counts. When it is done, it and its bytes are gone, also if that is repeated."""
    await stream.add([ONE, TWO])
    assert await stream.backlog() == Backlog(2, 9)
    taken = await stream.take("worker-1", 10)
    assert await stream.backlog() == Backlog(2, 9)
    await stream.done(taken[:1])
    await stream.done(taken[:1])
    assert await stream.backlog() == Backlog(1, 6)
    await stream.done(taken)
    assert await stream.backlog() == Backlog(0, 0)


async def test_only_the_owner_hands_back(real_redis):
    """A message that was taken over stays with its new owner."""
    stream = Stream(real_redis, "stored")
    await stream.add([ONE])
    taken = await stream.take("late", 1)
    await stream.take_over("owner", 0, 1)
    await stream.hand_back("late", taken)
    assert await stream.take_over("third", 3600, 10) == []


async def test_backlogs_of_several_streams_take_one_round_trip(redis):
    """Streams that don't exist have an empty backlog."""
    await Stream(redis, "stored").add([ONE])
    assert await backlogs(redis, ["incomplete", "stored"]) == {"incomplete": Backlog(0, 0), "stored": Backlog(1, 3)}


def test_bounds_count_messages_and_bytes():
    """Either of the two can fill a stream."""
    bounds = Bounds(messages=2, bytes=100)
    assert bounds.leave_room(Backlog(1, 99))
    assert not bounds.leave_room(Backlog(2, 0))
    assert not bounds.leave_room(Backlog(1, 100))
