"""Questions that a request asks early: it waits once for Redis, and its replies are never older than itself."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from microsub.base.errors import StoreUnusable
from microsub.redis import foresight
from microsub.redis.foresight import Foresight, read_again
from microsub.redis.multiplexer import Changed, Multiplexed
from microsub.redis.protocol import Redis
from tests.support.redis_wrappers import InRow
from tests.support.waiting import wait_until

KEYS = ("item:1", "item:2", "item:3")


async def prepare(redis: Redis) -> tuple[InRow, Foresight]:
    links = [("HSET", key, "next", after) for key, after in zip(KEYS, ("2", "3", ""), strict=True)]
    await redis.pipeline(links)
    counted = InRow(redis)
    return counted, Foresight(counted)


async def walk(redis: Redis, begin: str = "1") -> list[str]:
    """The numbers of hashes that form a chain, from that one on."""
    found = []
    while begin:
        found.append(begin)
        begin = ((await redis.command("HGET", f"item:{begin}", "next")) or b"").decode()
    return found


async def test_a_repeated_request_waits_once(redis: Redis) -> None:
    """Changes are seen, and questions that follow from them are asked as usual."""
    counted, foreseeing = await prepare(redis)
    for waits in (3, 1, 1):
        counted.rows.clear()
        with foreseeing.of("sync", "walk", 0.0):
            assert await walk(foreseeing) == ["1", "2", "3"]
        assert len(counted.rows) == waits
    await redis.command("HSET", KEYS[0], "next", "3")
    for waits in (1, 1):
        counted.rows.clear()
        with foreseeing.of("sync", "walk", 0.0):
            assert await walk(foreseeing) == ["1", "3"]
        assert len(counted.rows) == waits
    await redis.command("HSET", KEYS[0], "next", "2")
    counted.rows.clear()
    with foreseeing.of("sync", "walk", 0.0):
        assert await walk(foreseeing) == ["1", "2", "3"]
    assert len(counted.rows) == 2
    with foreseeing.of("sync", "another request", 0.0):
        counted.rows.clear()
        await walk(foreseeing)
        assert len(counted.rows) == 3


async def test_a_request_sees_its_own_changes(redis: Redis) -> None:
    """Also those that it makes by another connection, after `read_again`."""
    _, foreseeing = await prepare(redis)
    for number in range(3):
        with foreseeing.of("sync", "change", 0.0):
            await walk(foreseeing)
            await foreseeing.command("HSET", KEYS[2], "next", f"{number + 7}")
            assert await walk(foreseeing) == ["1", "2", "3", f"{number + 7}"]
            await redis.command("HSET", KEYS[2], "next", "")
            read_again()
            assert await walk(foreseeing) == ["1", "2", "3"]


async def test_values_that_are_others_each_time(redis: Redis) -> None:
    """They are replaced in what is asked early: numbers as they are, texts also as parts of others."""
    counted, foreseeing = await prepare(redis)
    for number in range(1, 4):
        await redis.command("ZADD", "arrivals", 1700_000_000 + number, f"{number}")
        counted.rows.clear()
        since = f"{1700_000_000 + number}"
        with foreseeing.of("sync", "since", float(number), since):
            assert await foreseeing.command("ZCOUNT", "arrivals", int(since), "+inf") == 1
            assert await foreseeing.command("ZRANGE", "arrivals", f"({since}", "+inf", "BYSCORE") == []
            assert await foreseeing.command("ZSCORE", "arrivals", float(number)) is None
        assert len(counted.rows) == (3 if number == 1 else 1)
    await redis.command("DEL", "arrivals")


async def test_a_refused_request_is_forgotten(redis: Redis) -> None:
    """A token that was revoked costs nothing from its second request on."""
    counted, foreseeing = await prepare(redis)
    with foreseeing.of("sync", "walk", 0.0):
        await walk(foreseeing)
    with pytest.raises(PermissionError), foreseeing.of("sync", "walk", 0.0):
        raise PermissionError
    counted.rows.clear()
    with foreseeing.of("sync", "walk", 0.0):
        await foreseeing.command("HGET", KEYS[0], "next")
    assert len(counted.rows) == 1


async def test_large_replies_are_not_asked_for_early(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred requests that wait for their turn would have a hundred of them in memory."""
    monkeypatch.setattr(foresight, "_MOST_OF_REPLIES", 10)
    counted, foreseeing = await prepare(redis)
    await redis.command("HSET", "item:4", "long", "x" * 1000)
    await redis.command("ZADD", "arrivals", *(part for number in range(9) for part in (number, number)))
    for _ in range(2):
        counted.rows.clear()
        with foreseeing.of("sync", "walk", 0.0):
            await walk(foreseeing)
            await foreseeing.command("ZRANGE", "arrivals", 0, -1)
            await foreseeing.command("HGET", "item:4", "long")
    assert [len(row) for row in counted.rows] == [3, 1, 1]
    await redis.pipeline([("DEL", "arrivals"), ("DEL", "item:4")])


async def test_large_questions_are_not_remembered(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small ones beside them are."""
    monkeypatch.setattr(foresight, "_MOST_OF_REQUEST", 10)
    counted, foreseeing = await prepare(redis)
    for _ in range(2):
        counted.rows.clear()
        with foreseeing.of("sync", "walk", 0.0):
            await walk(foreseeing)
            await foreseeing.pipeline([("HGETALL", KEYS[0])] * 6)
    assert [len(row) for row in counted.rows] == [3, 1]


async def refused(*_: Any) -> Any:
    raise StoreUnusable("Redis refuses to report changes")


class Syncing:
    """An app over a connection that reports changes: each sync is a walk and two other requests."""

    def __init__(self, redis: Multiplexed) -> None:
        self.counted = InRow(redis)
        self.foreseeing = Foresight(self.counted, lambda changed: self._reporting(redis, changed))

    def _reporting(self, redis: Multiplexed, changed: Changed) -> Redis:
        self.connection = redis.reporting(changed)
        self.reporting = InRow(self.connection, beside=self.counted)
        return self.reporting

    async def sync(self, now: float, since: str = "") -> tuple[list[str], int]:
        """The replies, and the number of waits for Redis."""
        await self.connection.command("DBSIZE")  # from now on, all earlier changes are known
        self.counted.rows.clear()
        with self.foreseeing.of("app", "walk", now):
            found = await walk(self.foreseeing)
        with self.foreseeing.of("app", "values", now + 0.5):
            values = await self.foreseeing.command("HVALS", KEYS[0])
        with self.foreseeing.of("app", "since", now + 1, *filter(None, [since])):
            later = await self.foreseeing.command("ZRANGE", "arrivals", f"({since}", "+inf", "BYSCORE") if since else []
        return [*found, *map(bytes.decode, [*values, *later])], len(self.counted.rows)


@pytest.fixture
async def syncing(real_redis: Multiplexed, reports_all: None) -> AsyncIterator[Syncing]:
    await prepare(real_redis)
    made = Syncing(real_redis)
    for at in (0.0, 10.0):
        await made.sync(at)
    yield made
    await made.foreseeing.aclose()
    await real_redis.command("DEL", *KEYS)


async def test_requests_that_follow_do_not_wait(syncing: Syncing, real_redis: Redis) -> None:
    """A change between two of them is seen, also by the request that asked before it."""
    assert await syncing.sync(20.0) == (["1", "2", "3", "2"], 1)
    await real_redis.command("HSET", KEYS[0], "next", "3")
    assert (await syncing.sync(20.1))[0] == ["1", "3", "3"]
    assert await syncing.sync(20.2) == (["1", "3", "3"], 0)


async def test_kept_replies_are_of_the_last_seconds(syncing: Syncing) -> None:
    """By the time of the requests, so that a clock that jumps keeps nothing for longer."""
    for at, waits in ((20.0, 1), (20.9, 0), (21.9, 1), (20.0, 1), (20.1, 0)):
        assert (await syncing.sync(at))[1] == waits, at


async def test_values_that_change_each_time_are_not_asked_for_ahead(syncing: Syncing, real_redis: Redis) -> None:
    """The request that has them asks itself, and what it asks is asked once."""
    await real_redis.command("ZADD", "arrivals", 1700_000_005, "new")
    for number in (1, 2, 3):
        assert await syncing.sync(number * 20.0, f"170000000{number}") == (["1", "2", "3", "2", "new"], 2)
    await real_redis.command("DEL", "arrivals")


async def test_without_reports_nothing_is_kept(syncing: Syncing, real_redis: Redis) -> None:
    """A connection that is lost is made again; one that Redis refuses isn't used any more."""
    assert (await syncing.sync(20.0))[1] == 1
    number = await syncing.reporting.command("CLIENT", "ID")
    await real_redis.command("CLIENT", "KILL", "ID", number)
    await real_redis.command("HSET", KEYS[0], "next", "3")
    await wait_until(lambda: not syncing.connection.is_accepted)
    assert (await syncing.sync(20.1))[0] == ["1", "3", "3"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(syncing.reporting, "command", refused)
        for at in (30.0, 40.0):
            assert (await syncing.sync(at))[0] == ["1", "3", "3"]


class Name(str):
    """The name of a key, of which one can see whether it is in memory."""

    made: ClassVar[list[weakref.ref[Name]]] = []

    def __init__(self, *_: Any) -> None:
        self.made.append(weakref.ref(self))


async def test_questions_of_several_keys_are_forgotten(
    syncing: Syncing, real_redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the life of their replies, also if one of the keys has changed meanwhile."""
    monkeypatch.setattr(foresight, "LIFE", 0.5)
    for number in (1, 2):
        since = f"170000000{number}"
        with syncing.foreseeing.of("app", "names", number * 20.0, since):
            await syncing.foreseeing.pipeline([("HGETALL", KEYS[0]), ("HGETALL", Name(f"item:{since}"))])
    await real_redis.command("HSET", KEYS[0], "next", "3")
    await syncing.connection.command("DBSIZE")
    with syncing.foreseeing.of("app", "names", 60.0, "1700000003"):
        pass
    assert len(Name.made) > 2
    await wait_until(lambda: not any(name() for name in Name.made))


async def test_few_replies_are_asked_for_ahead(syncing: Syncing, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as one request may ask early, however many requests follow it."""
    foreseeing = syncing.foreseeing
    monkeypatch.setattr(foresight, "_MOST_OF_REPLIES", 10)
    for at in (20.0, 30.0):
        syncing.reporting.rows.clear()
        for number in range(6):
            with foreseeing.of("app", number, at):
                await foreseeing.command("HMGET", KEYS[0], *map(str, range(number, number + 4)))
    assert [len(row) for row in syncing.reporting.rows] == [2, 2, 2]
