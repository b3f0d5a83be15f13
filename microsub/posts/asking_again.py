"""Look-ups that found no room in their stream: asked for again when there is room.

A look-up is not worth holding up the news, so beyond a bound it is left out. That any was left out is noted before the
post leaves its feed's pending set; which ones is written in the posts themselves, and what a walk over all posts costs
is paid only after the bound was met.

Some look-ups never succeed: what they fail on is in the dead letters, and their posts lack something for good. So each
is asked for again `MOST` times at most, which the post notes too; those that were asked for less often come first, and
of these the oldest. So every round leaves fewer, and the rounds end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from microsub.kit.periodic import PACE, RoundTiming, for_ever
from microsub.posts.messages import Fields, ItemIncomplete
from microsub.posts.store import garbage
from microsub.posts.store.items import Items
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.streams import Bounds, Stream

LOOK_UPS = Bounds(messages=50_000)
"""What may wait to be completed. Beyond that items stay as they are for the time being."""

FEW = 1_000
"""Waiting look-ups below which others are asked for. So many may be asked for twice, which costs a reading each."""

AT_ONCE = 25_000
"""Look-ups that one round asks for: news need room too."""

MOST = 3
"""How often a look-up is asked for again, until its post is edited."""

_BATCH = 1_000
_PAUSE = 0.005
"""Seconds after each batch, so that Redis has time for readers."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class LookUp:
    """What a post lacks, the most urgent first: it was asked for again `asked` times, in that version of the post."""

    asked: int
    item: int
    version: str

    def to_fields(self) -> Fields:
        """The message that asks for it."""
        return ItemIncomplete(str(self.item), self.version).to_fields()

    @property
    def note(self) -> str:
        """What the post keeps once it is asked for again."""
        return f"{self.asked + 1} {self.version}"


async def look_ups_of(items: Items, ids: Sequence[str]) -> list[LookUp]:
    """What these items lack; those that lack nothing, or are gone, have none."""
    rows = await items.fields(ids, ("incomplete", "version", "asked"))
    found = []
    for item_id, row in zip(ids, rows, strict=True):
        incomplete, version, asked = (text(value) if value else "" for value in row)
        if incomplete:
            count, _, of_version = asked.partition(" ")
            times = int(count) if of_version == version else 0
            found.append(LookUp(times, int(item_id), version))
    return found


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
        """Ask for what was left out, `at_once` look-ups at most; how many. Raises StoreError.

        Where more are left, the next round goes on.
        """
        mark = await self._incomplete.left_out()
        if mark is None or (await self._incomplete.backlog()).messages >= FEW:
            return 0
        chosen: list[LookUp] = []
        is_all = True
        async for ids in garbage.stored_ids(self._redis):
            found = await look_ups_of(self._items, [str(item) for item in ids])
            chosen += [one for one in found if one.asked < MOST]
            if len(chosen) > 2 * self._at_once:
                is_all = False
                chosen = _most_urgent(chosen, self._at_once)
            await self._pause(_PAUSE)
        wanted = _most_urgent(chosen, self._at_once)
        is_all = is_all and len(wanted) == len(set(chosen))
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            await self._incomplete.add([one.to_fields() for one in batch])
            # After a crash in between they are asked for once more than is noted.
            await self._items.note({str(one.item): {"asked": one.note} for one in batch})
            await self._pause(_PAUSE)
        if is_all:
            await self._incomplete.made_up(mark)
        return len(wanted)

    async def run_for_ever(self, pace: RoundTiming = PACE) -> None:
        """Ask again and again, until cancelled."""

        async def one_round(_now: float) -> None:
            if asked := await self.run():
                log.info("postponed look-ups are queued", posts=asked)

        await for_ever(one_round, "asking_again", pace)


def _most_urgent(found: Sequence[LookUp], most: int) -> list[LookUp]:
    """Those that were asked for least often, and of these the oldest; each once."""
    return sorted(set(found))[:most]
