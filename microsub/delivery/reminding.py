"""Reminders of posts and changes of feeds that were never passed on.

After a crash the message of a post is repeated. Posts are stuck if their message was lost, because Redis restarted
without its last second. A feed's change would be announced with its next change, which may be much later.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from microsub.base.periodic import PACE, RoundTiming, run_periodically
from microsub.feeds import announce
from microsub.posts import ItemsStored

if TYPE_CHECKING:
    from microsub.feeds import Events, Feeds
    from microsub.posts import Items
    from microsub.work import Stream

log = structlog.get_logger(__name__)


_FEEDS_AT_ONCE = 500


@dataclass(eq=False, repr=False)
class Reminder:
    """Finds posts that are in their feed's outbox in two consecutive rounds, and notes of changed feeds as old."""

    feeds: Feeds
    items: Items
    stored: Stream
    events: Events
    _before: Mapping[str, frozenset[str]] = field(init=False, default_factory=dict)
    _notes: Mapping[str, str] = field(init=False, default_factory=dict)

    async def run(self) -> int:
        """Pass on posts that have been in an outbox since the last round; returns their number. Raises StoreError."""
        count = 0
        now: dict[str, frozenset[str]] = {}
        notes: dict[str, str] = {}
        feeds = await self.feeds.all_ids()
        for start in range(0, len(feeds), _FEEDS_AT_ONCE):
            batch = feeds[start : start + _FEEDS_AT_ONCE]
            for feed_id, ids in (await self.items.outboxes(batch)).items():
                stuck = sorted(self._before.get(feed_id, frozenset()).intersection(ids), key=int)
                if stuck:
                    # Whether they are new or edited isn't known any more, so they are handled as both.
                    await self.stored.add([ItemsStored(feed_id, tuple(stuck), tuple(stuck)).to_fields()])
                    await self.items.done(feed_id, stuck)
                    log.warning("stuck posts were handed to delivery again", feed=feed_id, posts=len(stuck))
                    count += len(stuck)
                now[feed_id] = frozenset(ids) - set(stuck)
            notes |= await self._announce(batch)
        self._before, self._notes = now, notes
        return count

    async def _announce(self, feeds: Sequence[str]) -> dict[str, str]:
        """Announce changes noted before the last round; the other notes, by feed."""
        notes = await self.feeds.unannounced(feeds)
        for feed_id in [one for one, note in notes.items() if self._notes.get(one) == note]:
            await announce(self.feeds, self.events, feed_id, notes.pop(feed_id), time.time())
            log.warning("a change of a feed was announced late", feed=feed_id)
        return notes

    async def run_forever(self, pace: RoundTiming = PACE) -> None:
        """Remind repeatedly, until cancelled."""
        await run_periodically(lambda _: self.run(), "reminding", pace)
