"""Posts that were stored and that nobody told the timelines of: told again.

That takes more than a crash, for after a crash the message comes again. It takes a message that is gone: a stream that
was deleted by hand, a Redis that came back without its last second.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from microsub.services.rounds import PACE, Pace, for_ever
from microsub.store.feeds import Feeds
from microsub.store.items import Items
from microsub.store.messages import ItemsStored
from microsub.store.streams import Stream

_AT_ONCE = 500

log = structlog.get_logger(__name__)


class Reminding:
    """Looks for posts that stand in their feed's pending set in two rounds, one after the other."""

    def __init__(self, feeds: Feeds, items: Items, stored: Stream) -> None:
        self._feeds = feeds
        self._items = items
        self._stored = stored
        self._before: Mapping[str, frozenset[str]] = {}

    async def run(self) -> int:
        """Tell of what is pending since the last round; how many posts. Raises StoreError."""
        told = 0
        now: dict[str, frozenset[str]] = {}
        feeds = await self._feeds.all_ids()
        for start in range(0, len(feeds), _AT_ONCE):
            batch = feeds[start : start + _AT_ONCE]
            for feed_id, ids in (await self._items.pending_of(batch)).items():
                stuck = sorted(self._before.get(feed_id, frozenset()).intersection(ids), key=int)
                if stuck:
                    # Whether they are new or edited nobody knows any more, so both is done with them.
                    await self._stored.add([ItemsStored(feed_id, tuple(stuck), tuple(stuck)).to_fields()])
                    await self._items.done(feed_id, stuck)
                    log.warning("posts were forgotten, and are told of now", feed=feed_id, posts=len(stuck))
                    told += len(stuck)
                now[feed_id] = frozenset(ids) - set(stuck)
        self._before = now
        return told

    async def run_for_ever(self, pace: Pace = PACE) -> None:
        """Remind again and again, until cancelled."""

        async def one_round(_now: float) -> None:
            await self.run()

        await for_ever(one_round, "reminding", pace)
