"""The loop of all durable work: heartbeats, lost claims, failures and the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import structlog.testing

from microsub.base.errors import StoreUnavailable
from microsub.work import Loop
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("quiet")


class Letters(Loop[str]):
    """Work on letters: each goes on until it is in `ends`. `lost` belong to another process."""

    def __init__(self, letters: str, lease: float = 60.0, at_once: int = 2) -> None:
        super().__init__("letters", at_once=at_once, lease=lease, batch=2, trouble=0.01)
        self.waiting = list(letters)
        self.is_away = False
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.handed_back: list[str] = []
        self.lost: set[str] = set()
        self.ends = asyncio.Event()

    def pause(self) -> float:
        return 0.01

    async def take(self, room: int) -> list[str]:
        if self.is_away:
            raise StoreUnavailable("away")
        taken, self.waiting = self.waiting[:room], self.waiting[room:]
        return taken

    async def keep(self, claims: Sequence[str]) -> list[bool]:
        if self.is_away:
            raise StoreUnavailable("away")
        return [claim not in self.lost for claim in claims]

    async def do(self, claim: str) -> int:
        self.begun.append(claim)
        if claim == "!":
            raise ValueError("a bug")
        try:
            await self.ends.wait()
        except asyncio.CancelledError:
            self.cancelled.append(claim)
            raise
        return 1

    async def hand_back(self, claims: Sequence[str]) -> None:
        self.handed_back += claims


@asynccontextmanager
async def running(loop: Letters, grace: float = 0.0) -> AsyncIterator[Letters]:
    task = asyncio.create_task(loop.run(grace))
    try:
        yield loop
    finally:
        loop.stop()
        await task


async def test_work_begins_when_there_is_room() -> None:
    """At most two pieces at a time, in order."""
    async with running(Letters("abc"), grace=10.0) as loop:
        await wait_until(lambda: loop.begun == ["a", "b"])
        assert loop.in_flight == 2
        loop.ends.set()
        await wait_until(lambda: loop.begun == ["a", "b", "c"])
    assert (loop.cancelled, loop.handed_back) == ([], [])


async def test_lost_work_is_cancelled_and_not_handed_back() -> None:
    """The rest goes on, and is handed back at the end."""
    async with running(Letters("ab", lease=0.03)) as loop:
        loop.lost = {"a"}
        await wait_until(lambda: loop.cancelled == ["a"])
        await wait_until(lambda: loop.in_flight == 1)
    assert loop.handed_back == ["b"]


async def test_work_without_heartbeats_is_cancelled() -> None:
    """While the store is away for longer than two thirds of a lease, another process may take the work over."""
    async with running(Letters("a", lease=0.3)) as loop:
        await wait_until(lambda: loop.begun == ["a"])
        loop.is_away = True
        await wait_until(lambda: loop.cancelled == ["a"])
        loop.is_away = False
        loop.waiting = ["b"]
        await wait_until(lambda: loop.begun == ["a", "b"])


async def test_a_bug_is_logged_and_ends_no_other_work() -> None:
    with structlog.testing.capture_logs() as lines:
        async with running(Letters("!a")) as loop:
            await wait_until(lambda: loop.claims == ["a"])
    assert [line["event"] for line in lines] == ["work failed"]


async def test_a_round_raises_the_first_failure_after_all_have_ended() -> None:
    loop = Letters("a!", at_once=2)
    loop.ends.set()
    with pytest.raises(ValueError, match="a bug"):
        await loop.run_round()
    assert (loop.begun, loop.in_flight) == (["a", "!"], 0)
    assert await loop.run_round() is None
