"""The names that workers have had in the streams' groups: forgotten when their worker has long been gone.

Each worker that starts takes a new name, so without this the groups would remember every worker there ever was. It is
no business of the stages: one worker's round serves a thousand others.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from microsub.kit.periodic import PACE, RoundTiming, for_ever
from microsub.redis.streams import Stream

LONG_GONE = 3600.0
"""Seconds without a sign of life after which a name that owns nothing is forgotten."""

log = structlog.get_logger(__name__)


class RollCall:
    """Forgets names in these streams. Any number of processes may do it; who owns a message is never forgotten."""

    def __init__(self, streams: Sequence[Stream], *, idle: float = LONG_GONE) -> None:
        self._streams = streams
        self._idle = idle

    async def run(self) -> int:
        """Forget once; how many names. Raises StoreError."""
        return sum([await stream.forget_consumers(self._idle) for stream in self._streams])

    async def run_for_ever(self, pace: RoundTiming = PACE) -> None:
        """Forget again and again, until cancelled."""

        async def one_round(_now: float) -> None:
            if forgotten := await self.run():
                log.info("workers that are long gone were forgotten", names=forgotten)

        await for_ever(one_round, "roll_call", pace)
