"""Read state: marking items of a channel, or of all channels, as read or unread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import compress
from typing import Literal

from microsub.accounts import absent
from microsub.base.errors import NotFound
from microsub.model.reader import GLOBAL, SAVED, Cursor, Row
from microsub.redis import keys
from microsub.redis.protocol import Redis, ScriptCall
from microsub.redis.replies import text
from microsub.redis.scan import members_at
from microsub.redis.scripts import BATCH, batches, load
from microsub.timelines.gone import left_among
from microsub.timelines.pages import channels_named, walk_rows
from microsub.timelines.readings import PIECES
from microsub.timelines.sync.arrivals import unread_in
from microsub.timelines.timelinekeys import batch_for, distinct, set_patterns, split

_AT_ONCE = 8
"""Channels that are marked in one round trip; more would delay others by more than a few milliseconds."""

_OF_MANY = 500
"""Items of one call while many are marked."""

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
        named = distinct(ids)
        if uid == GLOBAL and state == "read" and len(named) > BATCH:
            return await self._mark_many(user, named, now)
        return await self._mark_named(user, uid, named, state, now, batch_for(uid))

    async def _mark_named(
        self, user: str, uid: str, ids: Sequence[str], state: Literal["read", "unread"], now: float, size: int
    ) -> set[str]:
        changed: set[str] = set()
        at = 0
        while True:
            reply = await self._redis.script(_marking(user, uid, state, now, *ids[at : at + size]))
            if reply == -1:
                raise await absent(self._redis, user, uid)
            changed.update(split(reply[0]))
            at += reply[1]
            if at >= len(ids):
                return changed

    async def _mark_many(self, user: str, ids: Sequence[str], now: float) -> set[str]:
        """Mark items as read in all channels, one channel after the other."""
        uids = await channels_named(self._redis, user, GLOBAL)
        unread = await unread_in(self._redis, user, uids)
        have_hidden = await self._redis.pipeline([("EXISTS", keys.hidden(user, uid)) for uid in uids])
        wanted, changed = {*ids}, set[str]()
        for uid, has_hidden in zip(uids, have_hidden, strict=True):
            found = wanted.intersection(unread[uid])
            if has_hidden:
                found |= await members_at(self._redis, [keys.hidden(user, uid)], ids)
            if not found:
                continue
            ordered = await asyncio.to_thread(_in_order, found)
            with suppress(NotFound):  # the channel has been removed
                changed |= await self._mark_named(user, uid, ordered, "read", now, _OF_MANY)
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
        sets = (keys.posts, keys.hidden)
        stands = await self._redis.pipeline([("ZSCORE", key(user, one), item) for key in sets for one in uids])
        found = next((text(one) for one in stands if one is not None), None)
        if found is None and await left_among(self._redis, user, uids, [item]):
            (found,) = await self._scores_of([item])
        return await self._mark_everywhere(user, uids, now, item, found) if found is not None else {}

    async def mark_after(self, user: str, uid: str, place: Cursor, now: float) -> dict[str, set[str]]:
        """Mark all items older than that place as read, as `mark_until` does; returns the ids that changed, by channel.

        The place needn't be that of an item. Raises NotFound.
        """
        if uid != GLOBAL:
            return {uid: (await self._mark_until(user, uid, now, place.item, place.score))[0]}
        uids = await channels_named(self._redis, user, uid)
        return await self._mark_everywhere(user, uids, now, place.item, place.score)

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
        """Mark that item and all older ones as read; saved items, and feeds hidden in *All*, are left alone."""
        found = await self._redis.pipeline(
            [
                *(("EXISTS", keys.unread(user, uid)) for uid in uids),
                *(("EXISTS", keys.apart(user, uid)) for uid in uids),
            ]
        )
        left = [uid for uid in compress(uids, found[: len(uids)]) if uid != SAVED]
        changed: dict[str, set[str]] = {uid: set() for uid in left}
        for uid in {*left} & {*compress(uids, found[len(uids) :])}:
            left.remove(uid)
            changed[uid] = await self._mark_shown(user, uid, now, Cursor(score, item) if item else None)
        places = [(uid, (item, score)) for uid in left]
        while places:
            some, places = places[:_AT_ONCE], places[_AT_ONCE:]
            replies = await self._redis.scripts([_marking(user, uid, "until", now, *place) for uid, place in some])
            for (uid, _), reply in zip(some, replies, strict=True):
                if reply == -1:  # the channel has been removed
                    continue
                changed[uid].update(split(reply[0]))
                if reply[3]:
                    places.append((uid, _place(reply[3])))
        return changed

    async def _mark_shown(self, user: str, uid: str, now: float, first: Cursor | None) -> set[str]:
        """Mark what *All* shows of the channel's unread items as read, from that place on."""
        changed: set[str] = set()
        with suppress(NotFound):  # the channel has been removed
            async for rows in walk_rows(self._redis, user, uid, unread_only=True):
                ids = [row.id for row in rows if first is None or not _is_before(row, first)]
                if not ids:
                    continue
                apart = await self._redis.command("SMISMEMBER", keys.apart(user, uid), *ids)
                changed |= await self.mark(user, uid, [*compress(ids, (not one for one in apart))], "read", now)
        return changed

    async def _mark_until(
        self, user: str, uid: str, now: float, item: str = "", score: str = ""
    ) -> tuple[set[str], bool]:
        """Mark the unread items of one channel as read, from that place on; returns the ids that changed.

        The second value is True if the item has left the channel; without its `score` nothing was marked. Raises
        NotFound.
        """
        changed: set[str] = set()
        place = (item, score)
        while True:
            reply = await self._redis.script(_marking(user, uid, "until", now, *place))
            if reply == -1:
                raise await absent(self._redis, user, uid)
            ids, _, has_left, go_on = reply
            changed.update(split(ids))
            if not go_on:
                return changed, has_left == 1
            place = _place(go_on)


def _place(reply: bytes) -> tuple[str, str]:
    """The id and score at which lua/timeline_mark.lua goes on."""
    score, item = split(reply)
    return item, score


def _in_order(ids: Iterable[str]) -> list[str]:
    """Items in the order in which marking them takes the least time.

    Those stored last first, as the engine moves all later ids of the set for each that leaves it. Of some thousand,
    those of one piece of the times together, as each call writes the pieces that it changes.
    """
    parts = batches(sorted(ids, key=int, reverse=True), PIECES * _OF_MANY)
    return [one for part in parts for one in sorted(part, key=lambda item: int(item) % PIECES)]


def _is_before(row: Row, place: Cursor) -> bool:
    """Whether the row is newer than the place, in the order of timelines."""
    here, there = float(row.score), float(place.score)
    return here > there or (here == there and row.id > place.item)


def _marking(user: str, uid: str, how: str, now: float, *rest: str) -> ScriptCall:
    """A call of lua/timeline_mark.lua."""
    return load("timeline_mark")(user, patterns=set_patterns(user), uid=uid, how=how, now=now, items=rest)
