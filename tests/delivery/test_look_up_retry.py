"""Look-ups that found no room are queued again when there is room; none is lost or delays new posts."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from microsub.delivery.look_ups import MOST_TIMES, Completing, retry_look_ups
from microsub.posts import ingest
from microsub.posts.messages import EntriesFound
from microsub.posts.values import ItemToStore
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.work import Bounds, Stream
from tests.support import no_pause
from tests.support.parsing import PARSER
from tests.support.polling import World, world
from tests.support.posts import NOON, candidate
from tests.support.readers import Web


@pytest.fixture
async def it(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Two look-ups fill the stream, and no worker completes them."""
    monkeypatch.setattr(ingest, "LOOK_UPS", Bounds(messages=2))
    async with world(redis) as found:
        yield found


async def found(it: World, *names: str, incomplete: bool = True) -> None:
    """Stores posts of a document, by default incomplete ones."""
    feed = await it.feeds.ensure("https://blog.example/feed", NOON)
    posts: tuple[ItemToStore, ...] = tuple(candidate(name, incomplete=incomplete) for name in names)
    await it.ingest.add_found(EntriesFound(feed.id, NOON, posts))
    await it.stages.run_once()


async def retried(it: World, at_once: int = 100) -> int:
    return await retry_look_ups(it.redis, it.items, Stream(it.redis, "incomplete"), at_once=at_once, pause=no_pause)


async def complete(it: World) -> int:
    """Runs a worker with look-ups; returns the number that it has handled."""
    async with world(it.redis, completing=Completing(Web(), PARSER)) as other:
        return await other.stages.run_once()


async def lacking(it: World) -> set[str]:
    ids = [str(number) for number in range(1, 20)]
    rows = await it.items.fields(ids, ("incomplete",))
    return {item_id for item_id, (incomplete,) in zip(ids, rows, strict=True) if incomplete}


async def test_left_out_look_ups_are_queued_when_there_is_room(it):
    """The third of three documents finds no room; its posts are completed after the others."""
    for name in ("one", "two"):
        await found(it, name)
    await found(it, "three", "four")
    assert await complete(it) == 2
    assert len(await lacking(it)) == 2
    assert await retried(it) == 2
    assert await complete(it) == 2
    assert await lacking(it) == set()
    assert await retried(it) == 0


async def test_rounds_continue_until_all_are_queued(it, monkeypatch):
    """A round doesn't reach all posts; the next one queues the rest, and those that were left out meanwhile."""
    monkeypatch.setattr("microsub.delivery.look_ups.garbage.stored_ids", one_by_one)
    await found(it, "one", "two")
    await found(it, *"abcde")
    await complete(it)
    assert await retried(it, at_once=3) == 3
    await complete(it)
    assert len(await lacking(it)) == 2
    assert await retried(it, at_once=3) == 2
    await complete(it)
    assert await lacking(it) == set()


async def fail_all(it: World) -> int:
    """Takes all look-ups and lets them fail permanently; returns their number."""
    incomplete = Stream(it.redis, "incomplete")
    messages = await incomplete.take("nobody", 1000)
    await incomplete.done(messages)
    return len(messages)


async def test_failing_look_ups_dont_delay_others(it):
    """Five look-ups always fail, and more are left out all the time: no other look-up waits forever."""
    await found(it, *"abcdefgh")
    await found(it, "over")
    dead = sorted(await lacking(it), key=int)[:5]
    asked: list[list[str]] = []
    for _ in range(12):
        await it.redis.command("SET", keys.stream_left_out("incomplete"), "again")
        await fail_all(it)
        await retried(it, at_once=3)
        rows = await it.redis.command("XRANGE", keys.stream("incomplete"), "-", "+")
        asked.append([row[1][1].decode() for row in rows])
    in_order = [item for one_round in asked for item in one_round]
    assert max(Counter(in_order).values()) == MOST_TIMES
    assert set(in_order) == await lacking(it) >= set(dead)
    # The oldest come first, and none is repeated before all have been tried once.
    assert in_order[:9] == sorted(in_order[:9], key=int)
    assert len(set(in_order[:9])) == 9
    assert asked[-1] == []
    assert await Stream(it.redis, "incomplete").left_out() is None


async def test_look_ups_left_out_during_a_round_get_another(it, monkeypatch):
    """A look-up that finds no room after the round has read all posts starts another round."""
    await found(it, "one", "two")
    await found(it, "three")
    await complete(it)

    async def late(redis: Redis) -> AsyncIterator[list[int]]:
        async for ids in one_by_one(redis):
            yield ids
        await found(it, "late one")
        await found(it, "late two")
        await found(it, "left out")

    with monkeypatch.context() as patch:
        patch.setattr("microsub.delivery.look_ups.garbage.stored_ids", late)
        assert await retried(it) == 1
    await complete(it)
    assert len(await lacking(it)) > 0
    assert await retried(it) > 0
    await complete(it)
    assert await lacking(it) == set()


async def one_by_one(redis: Redis) -> AsyncIterator[list[int]]:
    """The ids of all items, each in its own batch."""
    for number in range(1, 20):
        if await redis.command("EXISTS", f"item:{number}"):
            yield [number]
