"""Look-ups that found no room in their stream: asked for again when there is room.

A look-up is not worth holding up the news, so beyond a bound it is left out. That any was left out is noted before the
post leaves its feed's pending set; which ones is written in the posts themselves. So nothing is kept per look-up, and
what a walk over all posts costs is paid only after the bound was met.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from microsub.services.rounds import PACE, Pace, for_ever
from microsub.store import shedding
from microsub.store.items import Items
from microsub.store.messages import Fields, ItemIncomplete
from microsub.store.port import Redis
from microsub.store.streams import Bounds, Stream

LOOK_UPS = Bounds(messages=50_000)
"""What may wait to be completed. Beyond that items stay as they are for the time being."""

FEW = 1_000
"""Waiting look-ups below which others are asked for. So many may be asked for twice, which costs a reading each."""

AT_ONCE = 25_000
"""Look-ups that one round asks for: news need room too."""

_PAUSE = 0.005
"""Seconds after each batch, so that Redis has time for readers."""

log = structlog.get_logger(__name__)


async def look_ups_of(items: Items, ids: Sequence[str]) -> list[Fields]:
    """The messages that ask for what these items lack; those that lack nothing, or are gone, have none."""
    rows = await items.fields(ids, ("incomplete", "version"))
    return [
        ItemIncomplete(item_id, (version or b"").decode("utf-8", "replace")).to_fields()
        for item_id, (incomplete, version) in zip(ids, rows, strict=True)
        if incomplete
    ]


class AskingAgain:
    """Asks for look-ups that were left out. Any number of processes may do it; what is asked for twice does no harm."""

    def __init__(
        self,
        redis: Redis,
        items: Items,
        incomplete: Stream,
        *,
        at_once: int = AT_ONCE,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._redis = redis
        self._items = items
        self._incomplete = incomplete
        self._at_once = at_once
        self._pause = pause

    async def run(self) -> int:
        """Ask for what was left out, `at_once` look-ups and a batch at most; how many. Raises StoreError.

        Where more are left, the next round goes on: those of this one lack nothing by then.
        """
        mark = await self._incomplete.left_out()
        if mark is None or (await self._incomplete.backlog()).messages >= FEW:
            return 0
        asked = 0
        async for ids in shedding.stored_ids(self._redis):
            wanted = await look_ups_of(self._items, [str(item) for item in ids])
            await self._incomplete.add(wanted)
            asked += len(wanted)
            if asked >= self._at_once:
                return asked
            await self._pause(_PAUSE)
        await self._incomplete.made_up(mark)
        return asked

    async def run_for_ever(self, pace: Pace = PACE) -> None:
        """Ask again and again, until cancelled."""

        async def one_round(_now: float) -> None:
            if asked := await self.run():
                log.info("look-ups that were left out are asked for", posts=asked)

        await for_ever(one_round, "asking_again", pace)
