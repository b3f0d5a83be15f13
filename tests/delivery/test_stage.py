"""A stage acknowledges last, retries failures, gives up on permanent ones, and loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
import structlog.testing

from microsub.base.errors import StoreDamaged, StoreUnavailable
from microsub.delivery.delivery import Delivery
from microsub.delivery.stage import Stages, retry
from microsub.feeds.events import Events
from microsub.feeds.record import Feeds
from microsub.posts.items import Items
from microsub.posts.messages import EntriesFound
from microsub.redis import keys
from microsub.redis.cluster import ClusterRedis
from microsub.redis.protocol import Redis
from microsub.redis.tracking import Tracker
from microsub.server.jobs import STAGES
from microsub.work import Bounds, DeadLetters, Message, Patience, Stage, Stream, queue
from tests.support.posts import NOON
from tests.support.redis_wrappers import CountingRedis
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("quiet")

QUICK = Patience(idle=0.3, deliveries=3, tick=0.01, look_around=0.01, trouble=0.01)

STEADY = QUICK._replace(idle=2.4)
"""For tests without takeovers: a sign of life every 0.8 s, which may be late on a busy machine."""


class Handler:
    """Records its messages; `act` may fail or wait."""

    def __init__(self, act: Callable[[str], object] = lambda _: None) -> None:
        self.act = act
        self.seen: list[str] = []
        self.most = self.now = 0

    async def __call__(self, message: Message) -> tuple[()]:
        name = message.fields["name"].decode()
        self.seen.append(name)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            result = self.act(name)
            if asyncio.iscoroutine(result):
                await result
        finally:
            self.now -= 1
        return ()


class Signs(Stream):
    """A stream that counts the signs of life."""

    given = 0

    async def keep(self, consumer, ids):
        try:
            return await super().keep(consumer, ids)
        finally:
            self.given += 1

    async def longer_than_patience(self) -> None:
        """Waits for so many signs of life that without them the others' patience would be over."""
        enough = self.given + 5
        await wait_until(lambda: self.given >= enough)


def stage(redis: Redis, handle: Handler, consumer: str = "one", **options: object) -> Stage:
    options = {"patience": QUICK, **options}
    return Stage(Stream(redis, "stored"), handle, DeadLetters(redis), consumer=consumer, **options)  # type: ignore[arg-type]


@asynccontextmanager
async def running(*stages: Stage, grace: float = 1.0) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(one.run(grace)) for one in stages]
    try:
        yield
    finally:
        for one in stages:
            one.stop()
        await asyncio.gather(*tasks)


async def add(redis: Redis, *names: str) -> None:
    await Stream(redis, "stored").add([{"name": name.encode()} for name in names])


async def empty(redis: Redis) -> bool:
    return not (await Stream(redis, "stored").backlog()).messages


def fails_for(*bad: str) -> Callable[[str], object]:
    def act(name: str) -> None:
        if name in bad:
            raise ValueError(f"{name} is bad")

    return act


async def test_every_message_is_handled_and_leaves(redis):
    """Two consumers handle a hundred messages, each once."""
    handler = Handler()
    async with running(stage(redis, handler, patience=STEADY), stage(redis, handler, "two", patience=STEADY)):
        await add(redis, *map(str, range(100)))
        await wait_until(lambda: empty(redis))
    assert sorted(handler.seen, key=int) == [str(n) for n in range(100)]


async def test_failing_messages_become_dead_letters(real_redis):
    """After the last attempt it is kept with its reason; the others were handled long before."""
    await add(real_redis, "good", "poison", "better")
    handler = Handler(fails_for("poison"))
    dead = DeadLetters(real_redis)
    async with running(stage(real_redis, handler)):
        await wait_until(lambda: empty(real_redis))
    assert handler.seen.count("poison") == QUICK.deliveries
    assert [handler.seen.count(name) for name in ("good", "better")] == [1, 1]
    (letter,) = await dead.list()
    assert (letter.stage, letter.why, letter.deliveries) == ("stored", "ValueError: poison is bad", 3)
    assert letter.fields == {"name": b"poison"}


async def test_corrupt_records_become_dead_letters_at_once(redis):
    """Retrying forever wouldn't help; the dead letter names the key."""
    await add(redis, "poison")

    async def undecodable(_message: Message) -> None:
        raise StoreDamaged("feed:{7}")

    async with running(stage(redis, undecodable)):
        await wait_until(lambda: empty(redis))
    (letter,) = await DeadLetters(redis).list()
    assert "feed:{7}" in letter.why


async def test_a_message_that_kills_its_process_is_buried_as_well(real_redis):
    """No failure is reported, but the message was delivered too often without an end."""
    await add(real_redis, "bomb")
    stream = Stream(real_redis, "stored")
    assert await stream.take("victim 0", 1)
    for number in range(1, QUICK.deliveries):
        await wait_until(lambda n=number: stream.take_over(f"victim {n}", 0.001, 1))
    handler = Handler()
    async with running(stage(real_redis, handler)):
        await wait_until(lambda: empty(real_redis))
    assert handler.seen == []
    (letter,) = await DeadLetters(real_redis).list()
    assert "died" in letter.why


async def test_store_failures_count_as_no_attempt(real_redis):
    """While Redis refuses, a message is retried without limit, and is handled when Redis works again."""
    await add(real_redis, "patient")
    tries = 0

    def act(_name: str) -> None:
        nonlocal tries
        tries += 1
        if tries <= 3 * QUICK.deliveries:
            raise StoreUnavailable("away")

    handler = Handler(act)
    async with running(stage(real_redis, handler)):
        await wait_until(lambda: empty(real_redis))
    assert tries == 3 * QUICK.deliveries + 1
    assert await DeadLetters(real_redis).list() == []


async def test_a_slow_handler_keeps_its_message(real_redis):
    """With signs of life, a consumer may take longer than the others' patience."""
    release = asyncio.Event()
    slow, hasty = Handler(lambda _: release.wait()), Handler()
    signs = Signs(real_redis, "stored")
    async with running(Stage(signs, slow, DeadLetters(real_redis), consumer="slow", patience=STEADY)):
        await add(real_redis, "long")
        await wait_until(lambda: slow.seen == ["long"])
        async with running(stage(real_redis, hasty, "hasty", patience=STEADY)):
            await signs.longer_than_patience()
            assert hasty.seen == []
            release.set()
            await wait_until(lambda: empty(real_redis))
    assert (slow.seen, hasty.seen) == (["long"], [])


async def test_a_handler_ends_when_its_message_is_taken_over(real_redis: Redis) -> None:
    """A handler is cancelled when its message belongs to another consumer."""
    begun, given_up = asyncio.Event(), asyncio.Event()

    async def stuck(_message: Message) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    await add(real_redis, "long")
    async with running(stage(real_redis, stuck, "frozen", patience=STEADY)):
        await wait_until(begun.is_set)
        await wait_until(lambda: Stream(real_redis, "stored").take_over("other", 0.001, 1))
        await wait_until(given_up.is_set)
        assert not await empty(real_redis)


async def test_a_stopping_stage_hands_back_what_it_cannot_finish(real_redis):
    """Another consumer takes it over at once, as its first delivery."""
    stuck = Handler(lambda _: asyncio.Event().wait())
    async with running(stage(real_redis, stuck, "stopping"), grace=0.01):
        await add(real_redis, "long")
        await wait_until(lambda: stuck.seen == ["long"])
    (message,) = await Stream(real_redis, "stored").take_over("next", 3600, 10)
    assert message.deliveries == 1


class Counted(Handler):
    """A handler with the method of a delivery."""

    handle = Handler.__call__


async def handled_when_told(redis: Redis, url: str) -> None:
    """Stages that would check again after an hour handle a message at once, because Redis announces it."""
    seen = Counted()
    counted = CountingRedis(redis)
    stages = Stages(
        *(counted, Feeds(counted), Items(counted), cast(Delivery, seen), Events(counted), None),
        consumer="one",
        patience=Patience(tick=0.01, look_around=3600.0),
        tracker=Tracker(url, keys.STREAM_PREFIX, retry_every=0.01),
    )
    stages.serve("pushed", seen)
    tasks = asyncio.create_task(stages.run(1.0))
    try:
        await rests(counted)
        for name in ("stored", "pushed"):
            await Stream(redis, name).add([{"name": name.encode()}])
            await wait_until(lambda name=name: name in seen.seen)
        await rests(counted)
    finally:
        stages.stop()
        await tasks


async def rests(redis: CountingRedis) -> None:
    """Waits until no command was sent for many ticks."""
    trips = -1
    while trips != redis.trips:
        trips = redis.trips
        await asyncio.sleep(0.3)


async def test_new_messages_wake_the_stage(real_redis: Redis, redis_url: str) -> None:
    """An idle worker sends no commands, and its own commands don't wake it."""
    await handled_when_told(real_redis, redis_url)


async def test_clusters_have_the_same_warning(cluster_url: str) -> None:
    """This holds for streams on every master."""
    redis = ClusterRedis(cluster_url)
    await handled_when_told(redis, cluster_url)
    await redis.aclose()


async def test_a_full_next_stage_leaves_messages_waiting(redis):
    """The messages wait in their stream until there is room."""
    room = False

    async def has_room() -> bool:
        return room

    handler = Handler()
    await add(redis, "waiting")
    async with running(stage(redis, handler, has_room=has_room)):
        for _ in range(5):
            await asyncio.sleep(QUICK.tick)
        assert handler.seen == []
        room = True
        await wait_until(lambda: empty(redis))
    assert handler.seen == ["waiting"]


async def nothing(_found: EntriesFound) -> None:
    """Stores no posts: none are expected."""
    raise AssertionError


async def test_a_dead_letter_can_be_tried_again_or_dropped(redis):
    """A retry puts the message back into its stream; a dropped letter is deleted."""
    dead = DeadLetters(redis)
    for name in ("again", "never"):
        await dead.add("stored", Message("1-1", {"name": name.encode()}, 5), "why", 5.0)
    again, never = await dead.list()
    assert await dead.get(again.id) == again
    assert await retry(dead, [again], nothing, STAGES) == []
    await dead.drop([never])
    assert await dead.count() == 0
    assert await dead.get(never.id) is None
    handler = Handler()
    assert await stage(redis, handler).run_once() == 1
    assert handler.seen == ["again"]


async def test_a_full_stage_takes_no_message_over(real_redis):
    """While all its places are taken, it takes no message over, and continues."""
    release = asyncio.Event()
    handler = Handler(lambda _: release.wait())
    await add(real_redis, "first", "second")
    async with running(stage(real_redis, handler, at_once=1)):
        await wait_until(lambda: handler.seen == ["first"])
        for _ in range(10):
            await asyncio.sleep(QUICK.look_around)
        release.set()
        await wait_until(lambda: empty(real_redis))
    assert handler.seen == ["first", "second"]


async def test_a_dead_workers_message_is_found_behind_busy_ones(real_redis):
    """One check finds it, however many messages others are handling."""
    stream = Stream(real_redis, "stored")
    await add(real_redis, *map(str, range(200)), "left")
    busy = [message.id for message in await stream.take("busy", 200)]
    assert len(await stream.take("dead", 1)) == 1

    async def found() -> list[Message]:
        await stream.keep("busy", busy)
        return await stream.take_over("next", 1.0, 1)

    (message,) = await wait_until(found)
    assert message.fields == {"name": b"left"}


async def test_dead_letters_have_a_bound(redis: Redis) -> None:
    """By number and by size: the oldest are dropped and logged. The newest always stays."""
    dead = DeadLetters(redis, Bounds(messages=3, bytes=100_000))
    with structlog.testing.capture_logs() as logs:
        for number in range(5):
            await dead.add("stored", Message(f"{number}-1", {"feed": b"7"}), f"reason {number}", NOON + number)
    assert [letter.why for letter in await dead.list()] == ["reason 2", "reason 3", "reason 4"]
    assert [(entry["stage"], entry["why"]) for entry in logs] == [("stored", "reason 0"), ("stored", "reason 1")]
    await dead.add("stored", Message("9-1", {"feed": b"7" * 200_000}), "too large", NOON)
    assert [letter.why for letter in await dead.list()] == ["too large"]


async def test_a_stage_that_starts_forgets_ended_workers(real_redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names with messages are kept."""
    monkeypatch.setattr(queue, "LONG_GONE", -1.0)
    stream = Stream(real_redis, "stored")
    await add(real_redis, "kept", "done")
    assert await stream.take("with messages", 1)
    await stream.done(await stream.take("without", 1))

    async def names() -> list[bytes]:
        rows = await real_redis.command("XINFO", "CONSUMERS", keys.stream("stored"), "workers")
        return [row[1] for row in rows]

    async def is_replaced() -> bool:
        return await names() == [b"one", b"with messages"]

    assert await names() == [b"with messages", b"without"]
    async with running(stage(real_redis, Handler(), patience=STEADY)):
        await wait_until(is_replaced)
