"""Random histories with a Redis, against a model that is checked after each step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import redis as redis_py
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from microsub.redis.multiplexer import Multiplexed
from microsub.redis.protocol import Redis

T = TypeVar("T")


class History(RuleBasedStateMachine):
    """A history whose steps are coroutines, with its own event loop and empty Redis."""

    connect: Callable[[], Redis]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.redis = type(self).connect()

    def run(self, call: Awaitable[T]) -> T:
        async def wrapped() -> T:
            return await call

        return self.loop.run_until_complete(wrapped())

    def run_all(self, calls: Iterable[Awaitable[T]]) -> list[T]:
        """The results of several calls, which share their round trips."""

        async def gathered() -> list[T]:
            return await asyncio.gather(*calls)

        return self.run(gathered())

    def teardown(self) -> None:
        self.run(self.redis.aclose())
        self.loop.close()


def try_histories(machine: type[History], connect: Callable[[], Redis], count: int, steps: int) -> None:
    """Run `count` random histories of `steps` steps."""
    connected: Any = type("Connected", (machine,), {"connect": staticmethod(connect)})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        connected,
        settings=settings(
            max_examples=count,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        ),
    )


def emptied(redis_url: str) -> Callable[[], Redis]:
    """A function that empties this real Redis and connects to it."""

    def connect() -> Redis:
        with redis_py.Redis.from_url(redis_url) as client:
            client.flushdb()
        return Multiplexed(redis_url)

    return connect
