"""Periodic jobs: rounds of work, repeated until cancelled, of all workers by one at a time."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from microsub.errors import StoreError

BETWEEN_ROUNDS = 600.0
"""Seconds between two rounds of one process."""

_JUMP = 3600.0
"""Seconds by which a clock may be set without a round being left out."""

log = structlog.get_logger(__name__)


async def _always(_part: str, _seconds: float) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class RoundTiming:
    """When rounds begin: `between` is seconds between two, `chance` a number from 0 to 1.

    `clock` gives Unix time; `steady` counts seconds whatever it does. `turn` is asked, with the part's name and a
    number of seconds, whether nobody else has begun a round within these: what one worker has looked at needs no other
    one.
    """

    clock: Callable[[], float] = time.time
    between: float = BETWEEN_ROUNDS
    chance: Callable[[], float] = random.random
    turn: Callable[[str, float], Awaitable[bool]] = _always
    steady: Callable[[], float] = time.monotonic


PACE = RoundTiming()


async def for_ever(
    one_round: Callable[[float], Awaitable[object]], part: str, pace: RoundTiming, between: float = math.inf
) -> None:
    """Run `one_round`, which is given the time, again and again. `part` names it in the log.

    It waits as long as `pace` says, or `between` seconds where that is shorter.

    It ends when it is cancelled. Redis being away is logged and waited out, and so is a bug: what fills up or goes
    astray because upkeep ended unnoticed would be worse. A round whose clock has jumped ahead since the last one is
    left out: at a wrong time posts would look old, and what upkeep drops doesn't come back. The next one believes the
    clock.
    """
    task, between = asyncio.current_task(), min(pace.between, between)
    last, last_steady = pace.clock(), pace.steady()
    # A client library may swallow a cancellation that meets the end of a command; asyncio still counts it.
    while task is None or not task.cancelling():
        # Several processes that were started together drift apart.
        await asyncio.sleep(between * (0.5 + pace.chance()))
        now, steady = pace.clock(), pace.steady()
        jump = (now - last) - (steady - last_steady)
        last, last_steady = now, steady
        if jump > _JUMP:
            log.warning("the clock jumped ahead; a round of upkeep is skipped", part=part, seconds=round(jump))
            continue
        try:
            if await pace.turn(part, between / 2):
                await one_round(pace.clock())
        except StoreError as error:
            log.warning("a round of upkeep failed", part=part, error=str(error))
        except Exception:
            log.exception("a round of upkeep broke off", part=part)
    raise asyncio.CancelledError
