"""The outbox: hands stuck posts to delivery, and announces changes of feeds late.

After a crash the message of a post comes again. Posts are stuck when their message is gone: a stream was deleted by
hand, or Redis came back without its last second. A feed's change is announced with its next change, which may be long
after; this does it earlier. Names of consumers that are long gone are forgotten here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from microsub.feeds.events import Events, tell
from microsub.feeds.record import Feeds
from microsub.kit.periodic import PACE, RoundTiming, for_ever
from microsub.posts.items import Items
from microsub.posts.values import ItemsStored
from microsub.redis.streams import Stream

_AT_ONCE = 500

LONG_GONE = 3600.0
"""Seconds without a sign of life after which a name that owns nothing is forgotten."""

log = structlog.get_logger(__name__)


class Reminding:
    """Looks for posts that stand in their feed's pending set in two rounds, one after the other, and for notes of what
    changed in feeds that stand there as long.
    """

    def __init__(
        self,
        feeds: Feeds,
        items: Items,
        stored: Stream,
        events: Events,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._feeds = feeds
        self._items = items
        self._stored = stored
        self._events = events
        self._clock = clock
        self._before: Mapping[str, frozenset[str]] = {}
        self._notes: Mapping[str, str] = {}

    async def run(self) -> int:
        """Hand on what is pending since the last round; how many posts. Raises StoreError."""
        told = 0
        now: dict[str, frozenset[str]] = {}
        notes: dict[str, str] = {}
        feeds = await self._feeds.all_ids()
        for start in range(0, len(feeds), _AT_ONCE):
            batch = feeds[start : start + _AT_ONCE]
            for feed_id, ids in (await self._items.pending_of(batch)).items():
                stuck = sorted(self._before.get(feed_id, frozenset()).intersection(ids), key=int)
                if stuck:
                    # Whether they are new or edited nobody knows any more, so both is done with them.
                    await self._stored.add([ItemsStored(feed_id, tuple(stuck), tuple(stuck)).to_fields()])
                    await self._items.done(feed_id, stuck)
                    log.warning("stuck posts were handed to delivery again", feed=feed_id, posts=len(stuck))
                    told += len(stuck)
                now[feed_id] = frozenset(ids) - set(stuck)
            notes |= await self._announce(batch)
        self._before, self._notes = now, notes
        return told

    async def _announce(self, feeds: Sequence[str]) -> dict[str, str]:
        """Announce changes noted before the last round; the other notes, by feed."""
        notes = await self._feeds.untold_of(feeds)
        for feed_id in [one for one, note in notes.items() if self._notes.get(one) == note]:
            await tell(self._feeds, self._events, feed_id, notes.pop(feed_id), self._clock())
            log.warning("a change of a feed was announced late", feed=feed_id)
        return notes

    async def run_for_ever(self, pace: RoundTiming = PACE) -> None:
        """Remind again and again, until cancelled."""

        async def one_round(_now: float) -> None:
            await self.run()

        await for_ever(one_round, "reminding", pace)


class RollCall:
    """Forgets the names of workers in the streams' groups, where each worker that starts takes a new one.

    Any number of processes may do it. A name that owns a message is kept.
    """

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
