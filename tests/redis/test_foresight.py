"""Questions that a request asks early: it waits once for Redis, and its replies are never older than itself."""

from __future__ import annotations

import pytest

from microsub.redis import foresight
from microsub.redis.foresight import Foresight, read_again
from microsub.redis.protocol import Redis
from tests.support.redis_wrappers import InRow

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
        with foreseeing.of("walk"):
            assert await walk(foreseeing) == ["1", "2", "3"]
        assert len(counted.rows) == waits
    await redis.command("HSET", KEYS[0], "next", "3")
    for waits in (1, 1):
        counted.rows.clear()
        with foreseeing.of("walk"):
            assert await walk(foreseeing) == ["1", "3"]
        assert len(counted.rows) == waits
    await redis.command("HSET", KEYS[0], "next", "2")
    counted.rows.clear()
    with foreseeing.of("walk"):
        assert await walk(foreseeing) == ["1", "2", "3"]
    assert len(counted.rows) == 2
    with foreseeing.of("another request"):
        counted.rows.clear()
        await walk(foreseeing)
        assert len(counted.rows) == 3


async def test_a_request_sees_its_own_changes(redis: Redis) -> None:
    """Also those that it makes by another connection, after `read_again`."""
    _, foreseeing = await prepare(redis)
    for number in range(3):
        with foreseeing.of("change"):
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
        with foreseeing.of("since", float(number), since):
            assert await foreseeing.command("ZCOUNT", "arrivals", int(since), "+inf") == 1
            assert await foreseeing.command("ZRANGE", "arrivals", f"({since}", "+inf", "BYSCORE") == []
            assert await foreseeing.command("ZSCORE", "arrivals", float(number)) is None
        assert len(counted.rows) == (3 if number == 1 else 1)
    await redis.command("DEL", "arrivals")


async def test_a_refused_request_is_forgotten(redis: Redis) -> None:
    """A token that was revoked costs nothing from its second request on."""
    counted, foreseeing = await prepare(redis)
    with foreseeing.of("walk"):
        await walk(foreseeing)
    with pytest.raises(PermissionError), foreseeing.of("walk"):
        raise PermissionError
    counted.rows.clear()
    with foreseeing.of("walk"):
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
        with foreseeing.of("walk"):
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
        with foreseeing.of("walk"):
            await walk(foreseeing)
            await foreseeing.pipeline([("HGETALL", KEYS[0])] * 6)
    assert [len(row) for row in counted.rows] == [3, 1]
