"""The cache of looked-up values: their lifetime, their number, and one look-up for several callers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from microsub.base.errors import FetchError
from microsub.base.ttl_cache import TtlCache


class Asking:
    """Returns increasing numbers, or raises `problem`."""

    def __init__(self) -> None:
        self.times = 0
        self.problem: Exception | None = None
        self.now = 0.0
        self.under_way = self.most_under_way = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> int:
        self.times += 1
        number = self.times
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            await self.gate.wait()
        finally:
            self.under_way -= 1
        if self.problem is not None:
            raise self.problem
        return number


def remembering(asking: Asking, **parts: int) -> Callable[..., Awaitable[int]]:
    kept: TtlCache[int] = TtlCache(lifetime=100, failures=10, clock=lambda: asking.now, **{"most": 3, **parts})

    async def get(key: str, max_age: float | None = None) -> int:
        return await kept.get(key, asking, max_age=max_age)

    return get


async def test_a_bug_is_not_remembered() -> None:
    """All waiting callers get the error, and the next one looks up again."""
    asking = Asking()
    get = remembering(asking)
    asking.problem = KeyError("a bug")
    found = await asyncio.gather(get("a"), get("a"), return_exceptions=True)
    assert [type(one) for one in found] == [KeyError, KeyError]
    asking.problem = None
    assert await get("a") == 2


async def test_a_cached_error_has_no_growing_traceback() -> None:
    """The same error is raised each time, and its traceback doesn't grow."""
    asking = Asking()
    get = remembering(asking)
    asking.problem = FetchError("https://a.example/", "dns", "nobody")
    lengths = set()
    for _ in range(5):
        with pytest.raises(FetchError) as raised:
            await get("a")
        lengths.add(len(raised.traceback))
    assert asking.times == 1
    assert len(lengths) <= 2
    asking.problem, asking.now = None, 10.0
    assert await get("a") == 2


async def test_age_counts_from_the_question() -> None:
    """The age of a slow answer counts from its question; a younger answer than requested is fine."""
    asking = Asking()
    get = remembering(asking)
    asking.gate.clear()
    first = asyncio.create_task(get("a"))
    while not asking.under_way:
        await asyncio.sleep(0)
    asking.now = 50.0
    asking.gate.set()
    assert await first == 1
    assert await get("a", max_age=60) == 1
    assert await get("a", max_age=50) == 2
    asking.now = 150.0
    assert await get("a") == 3


async def test_concurrent_questions_are_limited() -> None:
    """The others wait for their turn, and all get an answer."""
    asking = Asking()
    get = remembering(asking, at_once=4, most=50)
    asking.gate.clear()
    tasks = [asyncio.create_task(get(str(number))) for number in range(20)]
    while asking.under_way < 4:
        await asyncio.sleep(0)
    asking.gate.set()
    assert len(set(await asyncio.gather(*tasks))) == 20
    assert asking.most_under_way == 4


async def test_the_most_recently_used_stay() -> None:
    """The cache keeps `most` of them."""
    asking = Asking()
    get = remembering(asking)
    for key in ("a", "b", "c", "a", "d"):
        await get(key)
    assert asking.times == 4
    assert await get("a") == 1
    assert await get("b") == 5


async def test_a_failed_renewal_keeps_the_valid_answer() -> None:
    """A caller who wants a newer value gets the error; others get the stored value until it expires."""
    asking = Asking()
    get = remembering(asking)
    assert await get("a") == 1
    asking.now, asking.problem = 50, FetchError("https://a.example/", "connect", "away")
    with pytest.raises(FetchError):
        await get("a", 10)
    assert await get("a") == 1
    asking.now = 100
    with pytest.raises(FetchError):
        await get("a")
    assert asking.times == 3
