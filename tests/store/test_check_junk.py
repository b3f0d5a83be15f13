"""Junk that a hand with redis-cli has put into every kind of key: found, mended, and borne meanwhile."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator

import orjson
import pytest

from microsub.errors import MicrosubError, SchemaMismatch
from microsub.model.reader import GLOBAL, NAME, PageQuery
from microsub.services.asking_again import AskingAgain
from microsub.services.reminding import Reminding
from microsub.services.sweeping import Sweeping
from microsub.store import keys
from microsub.store.keynames import Kind, kinds
from microsub.store.migrations import migrate
from microsub.store.port import Command, Redis
from microsub.store.streams import Stream
from tests.support.junk import (
    ANY_TEXT,
    ANYTHING,
    BINARY,
    ELSEWHERE,
    MEMBERS,
    NAMES,
    VALUE,
    How,
    apply,
    junk,
    key_of,
    spoil,
)
from tests.support.lived_in import LATER, LivedIn
from tests.support.polling import Clock, World, world
from tests.support.waiting import wait_until


@pytest.fixture
async def lived_in(real_redis: Redis) -> AsyncIterator[LivedIn]:
    here = LivedIn(real_redis)
    await here.begin()
    yield here
    left = [key_of(kind) for kind in kinds() if kind.name in ANYTHING | ELSEWHERE]
    await real_redis.pipeline([("DEL", key) for key in left])


async def goes_on(here: LivedIn, it: World) -> None:
    """Pages, channels, upkeep and the worker: what concerns ann's own spoilt record may be refused, and nothing dies.

    Anything but a named error is a bug, and a test's failure.
    """
    for user in ("ann", "bob"):
        for uid in ("home", GLOBAL):
            try:
                page = await here.timelines.page(user, uid, PageQuery(limit=100), LATER)
            except MicrosubError:
                assert user == "ann"
                continue
            assert len(page.rows) > 1
            for data in await here.items.data([row.id for row in page.rows]):
                assert data is None or orjson.loads(data)
            await here.channels.list(user)
    await it.worker.run_once()
    await here.feeds.all_ids()
    await Sweeping(here.redis, here.accounts, here.feeds).run(LATER)
    await Reminding(here.feeds, here.items, Stream(here.redis, "stored"), it.announcing).run()
    await AskingAgain(here.redis, here.items, Stream(here.redis, "incomplete")).run()
    for one in await here.accounts.users():
        await here.accounts.tokens(one.name)
        await here.channels.all_subscriptions(one.name)


def judged() -> list[Kind]:
    return [one for one in kinds() if one.name not in ANYTHING | ELSEWHERE]


async def standing(redis: Redis, kind: Kind) -> set[bytes]:
    """Which of the odd members the kind's key holds."""
    key = key_of(kind)
    match kind.type:
        case "set":
            found = [one for one in MEMBERS if await redis.command("SISMEMBER", key, one)]
        case "zset":
            found = [one for one in (*MEMBERS, b"inf") if await redis.command("ZSCORE", key, one) is not None]
        case "hash":
            found = [one for one in MEMBERS if await redis.command("HEXISTS", key, one)]
        case _:
            found = []
    return set(found)


@pytest.mark.parametrize("how", [junk, spoil])
@pytest.mark.parametrize("flavour", VALUE)
async def test_junk_in_every_kind_of_key_is_found_mended_and_borne(lived_in: LivedIn, flavour: str, how: How) -> None:
    """All at once: each kind of key is named by the check, the server goes on, a repair mends all of it for good."""
    redis = lived_in.redis
    spoilt = []
    for kind in judged():
        if how is junk or (kind.type == "hash" and await redis.command("EXISTS", key_of(kind))):
            await apply(redis, how(kind, flavour))
            spoilt.append(kind)
    async with world(redis, clock=Clock(LATER - time.time())) as it:
        report = await lived_in.check()
        subjects = [one.subject for one in report.left]
        if flavour != "binary":
            spoilt = [one for one in spoilt if one.name != "stream_left_out"]  # a mark may be any text
        missing = [one.name for one in spoilt if not any(subject.startswith(key_of(one)) for subject in subjects)]
        assert not missing, report.as_text()
        assert all(one.remedy is not None for one in report.left)
        await goes_on(lived_in, it)
        mended = await lived_in.check(mend=True)
        assert mended.left == (), mended.as_text()
        assert (await lived_in.check()).left == ()
        await goes_on(lived_in, it)
    for kind in spoilt:
        assert await standing(redis, kind) <= allowed(kind), kind.name


def allowed(kind: Kind) -> set[bytes]:
    """What of the odd members may stay: what could be text, or a name, is no junk everywhere."""
    if kind.name in ANY_TEXT:
        return {*MEMBERS, b"inf"} - {BINARY}
    return {one for one in (*MEMBERS, b"inf") if kind.name in NAMES and NAME.match(one.decode("utf-8", "replace"))}


async def test_a_worker_outlives_keys_of_wrong_types(lived_in: LivedIn) -> None:
    """Every kind of key is of another type than it should be: the worker goes on, and works once all is mended."""
    redis = lived_in.redis
    typed = [kind for kind in kinds() if kind.type is not None]
    for kind in typed:
        key = key_of(kind)
        wrong: Command = ("SET", key, "x") if kind.type != "string" else ("RPUSH", key, "x")
        await redis.pipeline([("DEL", key), wrong, *([] if kind.may_stay else [("EXPIRE", key, 1000)])])
    async with world(redis, clock=Clock(LATER - time.time())) as it:
        rounds, take = 0, it.worker._take

        async def counted() -> bool:
            nonlocal rounds
            rounds += 1
            return await take()

        it.worker._take = counted  # type: ignore[method-assign]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("microsub.pipeline.runner._TROUBLE_SECONDS", 0.01)
            patch.setattr("microsub.pipeline.runner.BEAT_SECONDS", 0.01)
            running = asyncio.create_task(it.worker.run(grace=0))
            await wait_until(lambda: rounds >= 3 or running.done())
            assert not running.done(), running.exception()
            report = await lived_in.check(mend=True)
            assert report.left == (), report.as_text()
            assert {one.subject for one in report.repaired} >= {key_of(kind) for kind in typed}
            assert await wait_until(functools.partial(it.presence.alive, it.clock()))
            rounds = 0
            await wait_until(lambda: rounds >= 3 or running.done())
            it.worker.stop()
            await running
    assert (await lived_in.check()).left == ()


@pytest.mark.parametrize("kind", [one for one in kinds() if one.name in ANYTHING], ids=lambda kind: kind.name)
async def test_what_may_be_anything_harms_nobody(lived_in: LivedIn, kind: Kind) -> None:
    """Of keys that nobody reads back, only a missing time to live is found."""
    await apply(lived_in.redis, junk(kind, "binary"))
    async with world(lived_in.redis, clock=Clock(LATER - time.time())) as it:
        await goes_on(lived_in, it)
        assert {one.what for one in (await lived_in.check(mend=True)).repaired} <= {
            "without a time to live, which it needs", "stays for ever, though nobody follows the feed",
        }  # fmt: skip
        assert (await lived_in.check()).left == ()


async def test_a_spoilt_version_of_the_layout_is_refused(lived_in: LivedIn) -> None:
    """Nobody can say what the data is like then; every command says what it found."""
    await lived_in.redis.command("SET", keys.schema(), BINARY)
    with pytest.raises(SchemaMismatch, match="expected a number"):
        await migrate(lived_in.redis)
