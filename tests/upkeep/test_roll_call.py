"""Workers that are long gone leave no names behind, and no worker that is at work spends time on that."""

from __future__ import annotations

from microsub.redis import keys
from microsub.redis.streams import GROUP, STAGES, Stream
from microsub.upkeep.outbox import RollCall


async def names(redis, stream: str) -> int:
    """How many consumers a stream's group knows."""
    return len(await redis.command("XINFO", "CONSUMERS", keys.stream(stream), GROUP))


async def test_names_are_forgotten_in_all_streams_but_not_their_owners(real_redis):
    """One worker has left, the other has a message in hand."""
    streams = [Stream(real_redis, name) for name in STAGES]
    for stream in streams[:2]:
        await stream.add([{"one": b"1"}, {"two": b"2"}])
        await stream.done(await stream.take("gone", 1))
        await stream.take("at work", 1)
    assert await RollCall(streams).run() == 0
    forgotten = 0
    while forgotten < 2:
        forgotten += await RollCall(streams, idle=0.001).run()
    assert [await names(real_redis, name) for name in STAGES] == [1, 1]
