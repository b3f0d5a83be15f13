"""Junk that a hand with redis-cli has put into every kind of key: found, mended, and borne meanwhile."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable

import orjson
import pytest

from microsub.errors import MicrosubError, SchemaMismatch
from microsub.model.reader import GLOBAL, NAME, PageQuery
from microsub.services.asking_again import AskingAgain
from microsub.services.reminding import Reminding
from microsub.services.sweeping import Sweeping
from microsub.store import identitykeys, keys
from microsub.store.keynames import Kind, kinds
from microsub.store.migrations import migrate
from microsub.store.port import Command, Redis
from microsub.store.streams import Stream
from tests.support.lived_in import LATER, LivedIn
from tests.support.polling import Clock, World, world
from tests.support.waiting import wait_until

HEX = "ab" * 32
VALUES = {"name": "ann", "uid": "home", "feed_id": "1", "item_id": "7", "digest": HEX, "host_name": "a.example"}
OTHERS = {
    "identity": "twin a.example 1", "tag": "x", "key": "x", "part": "sweep", "session": "s", "grant_id": "g" * 22,
    "minute": "1", "feed": "1",
}  # fmt: skip

ANYTHING = {
    "migration_lease", "config_lease", "saving_lease", "sweep_lease", "upkeep", "feed_copy_lock", "foreign_lease",
    "probe", "confirmed",  # only whether they are there, or are the same, is asked
    "worker", "events",  # nobody reads these
    "aside",  # that is where junk is put
    "feed_edition",  # compared, byte by byte
    "feed_marks", "feed_copy",  # what can't be read counts as absent
    "invitation",  # compared with a digest
    "ceremony", "sign_in", "foreign_refused",  # good once, or for seconds
}  # fmt: skip
"""Kinds of keys whose content may be anything: what depends on it."""

ANY_TEXT = {
    "applied_config", "attempts", "code", "feed", "feed_copies", "feed_guids", "feed_tombstones", "handles",
    "hosts_due", "imported", "item", "settings", "token", "user", "workers", "channel", "credentials", "foreign_checks",
}  # fmt: skip
"""Kinds in which any text may be a member, or a field beside those that are read."""

NAMES = {"channels", "removed_channels", "users", "seen"}
"""Kinds whose members are names, as some of the odd ones could be."""

ELSEWHERE = {"schema"}
"""No command begins with it spoilt, and each says why."""

BINARY = b"\xff\xfe\x00"
MEMBERS = (BINARY, b"x y", b"", b"-5", "²".encode(), b"007", b"9" * 30)
How = Callable[[Kind, str], list[Command]]
VALUE = {"binary": BINARY, "broken JSON": b"{", "text": b"x y."}


def key_of(kind: Kind) -> str:
    """A key of that kind, where the store has one, one that it has."""
    for module in (keys, identitykeys):
        function = getattr(module, kind.name, None)
        if function is not None:
            names = function.__code__.co_varnames[: function.__code__.co_argcount]
            known = {**VALUES, **OTHERS, **({"name": "entries"} if kind.name.startswith("stream") else {})}
            known |= {"name": "w"} if kind.name == "worker" else {}
            found: str = function(*(known[name] for name in names))
            return found
    raise AssertionError(kind.name)


def junk(kind: Kind, flavour: str) -> list[Command]:
    """What a hand does to it."""
    key, value = key_of(kind), VALUE[flavour]
    match kind.type:
        case "string" | None:
            commands: list[Command] = [("SET", key, value)]
        case "set":
            commands = [("SADD", key, *MEMBERS)]
        case "zset":
            commands = [("ZADD", key, *(part for one in MEMBERS for part in (5, one)))]
            commands.append(("ZADD", key, "inf", b"inf"))
        case "hash":
            commands = [("HSET", key, *(part for one in MEMBERS for part in (one, value)))]
        case "stream":
            commands = [("XADD", key, "*", one or b"e", value) for one in MEMBERS]
        case other:
            raise AssertionError(other)
    return commands if kind.may_stay else [*commands, ("EXPIRE", key, 1000)]


def spoil(kind: Kind, flavour: str) -> list[Command]:
    """What a hand does to the fields of a hash that are there; others of its kind of key are as `junk` has them."""
    return [("HSPOIL", key_of(kind), VALUE[flavour])] if kind.type == "hash" else junk(kind, flavour)


async def apply(redis: Redis, commands: list[Command]) -> None:
    for name, *args in commands:
        if name == "HSPOIL":
            for field in await redis.command("HKEYS", args[0]):
                await redis.command("HSET", args[0], field, args[1])
        else:
            await redis.command(name, *args)


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
            assert {one.subject for one in report.mended} >= {key_of(kind) for kind in typed}
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
        assert {one.what for one in (await lived_in.check(mend=True)).mended} <= {
            "without a time to live, which it needs", "stays for ever, though nobody follows the feed",
        }  # fmt: skip
        assert (await lived_in.check()).left == ()


async def test_a_spoilt_version_of_the_layout_is_refused(lived_in: LivedIn) -> None:
    """Nobody can say what the data is like then; every command says what it found."""
    await lived_in.redis.command("SET", keys.schema(), BINARY)
    with pytest.raises(SchemaMismatch, match="expected a number"):
        await migrate(lived_in.redis)
