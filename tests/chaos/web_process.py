"""A real web process that dies: `python -m tests.chaos.web_process TRIPS` runs `microsub web`.

From SIGUSR1 on it counts its round trips to Redis, and it kills itself before or after the TRIPS-th. So every place
between two commands of a request is tested.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from microsub.redis.connect import connect
from microsub.redis.multiplexer import Changed
from microsub.redis.protocol import Redis
from microsub.server import stores
from tests.chaos.worker_process import Mortal


class Condemned(Mortal):
    """A connection whose process dies some round trips after SIGUSR1."""

    def __init__(self, redis: Redis, trips: int) -> None:
        super().__init__(redis, trips)
        self._is_condemned = False
        signal.signal(signal.SIGUSR1, self._condemn)

    def reporting(self, changed: Changed) -> Redis:
        """See `Multiplexed`."""
        return self._redis.reporting(changed)  # type: ignore[attr-defined]

    def _condemn(self, _signal: int, _frame: object) -> None:
        self._is_condemned = True

    async def _trip(self, name: str, args: Any, run: Callable[[], Awaitable[Any]]) -> Any:
        return await (super()._trip(name, args, run) if self._is_condemned else run())


def main() -> None:
    trips = int(sys.argv.pop(1))

    async def connected(*arguments: Any, **named: Any) -> Redis:
        return Condemned(await connect(*arguments, **named), trips)

    stores.connect = connected  # type: ignore[assignment]
    from microsub.cli import main as microsub

    sys.argv.append("web")
    microsub()


if __name__ == "__main__":
    main()
