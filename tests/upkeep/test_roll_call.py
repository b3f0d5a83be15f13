"""Workers that are long gone leave no names behind, and no worker that is at work spends time on that."""

from __future__ import annotations

from contextlib import suppress

from microsub.redis import keys
from microsub.redis.streams import GROUP, STAGES, Stream
from microsub.upkeep.outbox import RollCall
from tests.support.polling import Clock, dated, rss, world
from tests.support.web import publisher


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


async def test_a_stage_asks_for_nobodys_name(real_redis):
    """Looking around costs a worker what takeover takes; with a thousand workers the names would cost more."""
    called: list[str] = []

    class Listening:
        def __getattr__(self, name: str):
            return getattr(real_redis, name)

        async def script(self, script, script_keys, args=()):
            called.append(script.name)
            return await real_redis.script(script, script_keys, args)

    async with publisher() as site, world(Listening(), clock=Clock()) as it:
        site.serve_document("/feed", rss(dated(2)))
        feed = await it.follow(site.url("/feed", "blog.test"))
        await it.poller.poll(feed.id)
        for stage in it.stages._stages:
            with suppress(TimeoutError):
                await stage._fill()
        await it.stages.run_once()
    assert "stream_leave" not in called
