"""Read state: marking items of a channel, or of all channels, as read or unread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import compress
from typing import Literal

from microsub.accounts import absent
from microsub.model.reader import GLOBAL, SAVED
from microsub.redis import keys
from microsub.redis.protocol import Redis, ScriptCall
from microsub.redis.replies import text
from microsub.redis.scripts import BATCH, batches, load
from microsub.timelines.pages import channels_named
from microsub.timelines.timelinekeys import batch_for, distinct, set_patterns, split

_AT_ONCE = 8
"""Channels that are marked in one round trip; more would delay others by more than a few milliseconds."""

ScoresOf = Callable[[Sequence[str]], Awaitable[list[str | None]]]
"""Scores of items as text, None if an item doesn't exist any more (`posts.items.Items.scores`)."""


class ReadState:
    """Marks items as read or unread. `scores_of` looks up scores, also of items that have left a timeline."""

    def __init__(self, redis: Redis, scores_of: ScoresOf) -> None:
        self._redis = redis
        self._scores_of = scores_of

    async def mark(
        self, user: str, uid: str, ids: Sequence[str], state: Literal["read", "unread"], now: float
    ) -> set[str]:
        """Mark items as read or unread in one channel or (`global`) in all; returns the ids that changed.

        Unknown ids are ignored; an empty list still checks that the channel exists. Raises NotFound.
        """
        changed: set[str] = set()
        left = distinct(ids)
        while True:
            reply = await self._redis.script(_marking(user, uid, state, now, *left[: batch_for(uid)]))
            if reply == -1:
                raise await absent(self._redis, user, uid)
            changed.update(split(reply[0]))
            left = left[reply[1] :]
            if not left:
                return changed

    async def mark_before(self, user: str, uid: str, item: str, now: float) -> set[str]:
        """Mark an item and all older ones as read, as `mark_until` does; returns the ids that changed anywhere."""
        return set[str]().union(*(await self.mark_until(user, uid, item, now)).values())

    async def mark_until(self, user: str, uid: str, item: str, now: float) -> dict[str, set[str]]:
        """Mark an item and all older ones as read, in the channel or (`global`) in all of them.

        Returns the ids that changed, by channel. One round trip for a channel that contains the item.

        An item that has left the timeline still has its score; an id that was never in it changes nothing. Muted items
        aren't marked, because the user hasn't seen them, and saved ones only in `saved` itself. Raises NotFound.
        """
        if uid != GLOBAL:
            changed, has_left = await self._mark_until(user, uid, now, item)
            score = (await self._scores_of([item]))[0] if has_left else None
            return {uid: changed if score is None else (await self._mark_until(user, uid, now, item, score))[0]}
        uids = await channels_named(self._redis, user, uid)
        sets = (keys.posts, keys.hidden, keys.gone)
        stands = await self._redis.pipeline([("ZSCORE", key(user, one), item) for key in sets for one in uids])
        found = next((text(one) for one in stands[: 2 * len(uids)] if one is not None), None)
        if found is None and any(stands):
            (found,) = await self._scores_of([item])
        return await self._mark_everywhere(user, uids, now, item, found) if found is not None else {}

    async def mark_all(self, user: str, uid: str, now: float) -> set[str]:
        """Mark all items of the channel or `global` as read, except saved ones from elsewhere; returns the changed ids.

        Raises NotFound.
        """
        if uid != GLOBAL:
            return (await self._mark_until(user, uid, now))[0]
        everywhere = await self._mark_everywhere(user, await channels_named(self._redis, user, uid), now)
        return set[str]().union(*everywhere.values())

    async def mark_again(self, user: str, ids: Mapping[str, Sequence[str]], now: float) -> int:
        """Mark items as unread again, by channel; returns their number. Skips items and channels that have left."""
        parts = [(uid, part) for uid, listed in ids.items() for part in batches(listed)]
        changed = 0
        for some in batches(parts, _AT_ONCE):
            replies = await self._redis.scripts([_marking(user, uid, "unread", now, *part) for uid, part in some])
            changed += sum(len(split(reply[0])) for reply in replies if reply != -1)
        return changed

    async def _mark_everywhere(
        self, user: str, uids: Sequence[str], now: float, item: str = "", score: str = ""
    ) -> dict[str, set[str]]:
        """Mark that item and all older ones as read; saved items are left alone."""
        unread = await self._redis.pipeline([("ZCARD", keys.unread(user, uid)) for uid in uids])
        left = [uid for uid in compress(uids, unread) if uid != SAVED]
        changed: dict[str, set[str]] = {uid: set() for uid in left}
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            replies = await self._redis.scripts([_marking(user, uid, "until", now, item, score) for uid in some])
            for uid, reply in zip(some, replies, strict=True):
                if reply == -1:  # the channel has been removed
                    continue
                changed[uid].update(split(reply[0]))
                if reply[1] == BATCH:
                    left.append(uid)
        return changed

    async def _mark_until(
        self, user: str, uid: str, now: float, item: str = "", score: str = ""
    ) -> tuple[set[str], bool]:
        """Mark the unread items of one channel as read, from that place on; returns the ids that changed.

        The second value is True if the item has left the channel; without its `score` nothing was marked. Raises
        NotFound.
        """
        changed: set[str] = set()
        looked_at, has_left = BATCH, 0
        while looked_at == BATCH:
            reply = await self._redis.script(_marking(user, uid, "until", now, item, score))
            if reply == -1:
                raise await absent(self._redis, user, uid)
            ids, looked_at, has_left = reply
            changed.update(split(ids))
        return changed, has_left == 1


def _marking(user: str, uid: str, how: str, now: float, *rest: str) -> ScriptCall:
    """A call of lua/timeline_mark.lua."""
    return load("timeline_mark")(user, patterns=set_patterns(user), uid=uid, how=how, now=now, items=rest)
