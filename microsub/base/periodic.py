"""Periodic jobs: rounds of work, repeated until cancelled, in one worker at a time."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import structlog

from microsub.base.errors import StoreError

BETWEEN_ROUNDS = 600.0
"""Seconds between two rounds of one process."""

_JUMP = 3600.0
"""Maximum seconds by which a clock may jump before a round is left out."""

log = structlog.get_logger(__name__)


async def _always(_part: str, _seconds: float) -> bool:
    return True


class RoundTiming(NamedTuple):
    """When rounds begin: `between` is seconds between two, `chance` a number from 0 to 1.

    `clock` gives Unix time, `steady` seconds that no change of the clock affects. `turn` is given the part's name and a
    number of seconds, and says whether no other worker has begun a round within them.
    """

    clock: Callable[[], float] = time.time
    between: float = BETWEEN_ROUNDS
    chance: Callable[[], float] = random.random
    turn: Callable[[str, float], Awaitable[bool]] = _always
    steady: Callable[[], float] = time.monotonic


PACE = RoundTiming()


async def run_periodically(
    one_round: Callable[[float], Awaitable[object]], part: str, pace: RoundTiming, between: float = math.inf
) -> None:
    """Run `one_round`, which is given the Unix time, until cancelled. `part` names the job in the log.

    Between two rounds it waits `between` seconds, or as long as `pace` says if that is shorter.

    A failure, of Redis or by a bug, is logged, and the next round runs: a silently stopped job would be worse. If the
    clock has jumped ahead since the last round, the round is left out, because at a wrong time posts would look old,
    and removed posts don't come back. The next round trusts the clock.
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
