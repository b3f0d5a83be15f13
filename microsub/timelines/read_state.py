"""Read state: marking items of a channel, or of all channels, as read or unread.

If posts of a user that are read in one channel are read everywhere, a mark in one channel counts in all that show or
hide the post, and for its duplicates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Literal

from microsub.accounts import absent
from microsub.base.errors import NotFound, StoreUnavailable
from microsub.model.reader import GLOBAL, SAVED, ChannelKey, Cursor, Row, TimelineItem
from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Redis, ScriptCall
from microsub.redis.readings import PIECES
from microsub.redis.replies import text
from microsub.redis.scan import members, members_at
from microsub.redis.scripts import BATCH, batches, load
from microsub.timelines.gone import left_among
from microsub.timelines.pages import channels_named, walk_rows
from microsub.timelines.sync.arrivals import unread_in
from microsub.timelines.timelinekeys import batch_for, distinct, set_patterns, split

READ_EVERYWHERE = "read_everywhere"
"""The user's setting: `yes` or `no`."""

_AT_ONCE = 8
"""Channels that are marked in one round trip; more would delay others by more than a few milliseconds."""

_OF_MANY = 500
"""Items of one call while many are marked."""


class ReadState:
    """Marks items as read or unread."""

    def __init__(self, redis: Redis, items: Items) -> None:
        self._redis = redis
        self._items = items

    async def mark(
        self, user: str, uid: str, ids: Sequence[str], state: Literal["read", "unread"], now: float
    ) -> set[str]:
        """Mark items as read or unread in one channel or (`global`) in all; returns the ids that changed.

        Unknown ids are ignored; an empty list still checks that the channel exists. Raises NotFound.
        """
        return set[str]().union(*(await self.mark_by_channel(user, uid, ids, state, now)).values())

    async def mark_by_channel(
        self, user: str, uid: str, ids: Sequence[str], state: Literal["read", "unread"], now: float
    ) -> dict[str, set[str]]:
        """As `mark`; returns the ids that changed, by channel."""
        marked = _Marked()
        if uid == GLOBAL and len(ids := distinct(ids)) > BATCH:
            await self._mark_many(user, ids, state, now, marked)
        else:
            await self._mark_named(user, uid, distinct(ids), state, now, marked, batch_for(uid))
            await self._mark_same(user, marked.spreading, state, now, marked)
        return marked.ids

    async def mark_here(self, user: str, uid: str, ids: Sequence[str], now: float) -> dict[str, set[str]]:
        """As `mark_by_channel` for read items, but in that channel alone, also if they are read everywhere."""
        marked = _Marked()
        await self._mark_named(user, uid, distinct(ids), "read here", now, marked)
        return marked.ids

    async def _mark_same(
        self, user: str, ids: Sequence[str], state: Literal["read", "unread"], now: float, marked: _Marked
    ) -> None:
        """Mark the duplicates of items that are read everywhere, as the items are."""
        for part in batches(ids, _OF_MANY):
            try:
                same = await self._items.duplicates(part)
            except StoreUnavailable:  # of posts on another master: the other marks are made, and can be undone
                return
            if same:
                await self._mark_named(user, GLOBAL, same, state, now, marked, batch_for(GLOBAL))

    async def _mark_named(
        self, user: str, uid: str, ids: Sequence[str], how: str, now: float, marked: _Marked, size: int = BATCH
    ) -> None:
        at = 0
        while True:
            reply = await self._redis.script(_marking(user, uid, how, now, *ids[at : at + size]))
            if reply == -1:
                raise await absent(self._redis, user, uid)
            marked.note(reply)
            at, size = at + reply[1], reply[1]
            if at >= len(ids):
                return

    async def _mark_many(
        self, user: str, ids: Sequence[str], state: Literal["read", "unread"], now: float, marked: _Marked
    ) -> None:
        """Mark items in all channels, one channel after the other, after their duplicates."""
        uids = await channels_named(self._redis, user, GLOBAL)
        unread = await unread_in(self._redis, user, uids) if state == "read" else {}
        *have_hidden, everywhere = await self._redis.pipeline(
            [*(("EXISTS", keys.hidden(user, uid)) for uid in uids), ("HGET", keys.user(user), READ_EVERYWHERE)]
        )
        wanted, found = {*ids}, dict[str, set[str]]()
        for uid, has_hidden in zip(uids, have_hidden, strict=True):
            sets = [keys.posts(user, uid)] if state == "unread" else []
            sets += [keys.hidden(user, uid)] * has_hidden
            there = await members_at(self._redis, sets, ids) if sets else set[str]()
            if some := wanted.intersection(unread.get(uid, ())) | there:
                found[uid] = some
        if everywhere == b"yes":
            await self._mark_same(user, [*set[str]().union(*found.values())], state, now, marked)
        for uid, some in found.items():
            ordered = await asyncio.to_thread(_in_order, some)
            with suppress(NotFound):  # the channel has been removed
                await self._mark_named(user, uid, ordered, f"{state} here", now, marked, _OF_MANY)

    async def mark_before(self, user: str, uid: str, item: str, now: float) -> set[str]:
        """Mark an item and all older ones as read, as `mark_until` does; returns the ids that changed anywhere."""
        return set[str]().union(*(await self.mark_until(user, uid, item, now)).values())

    async def mark_until(self, user: str, uid: str, item: str, now: float) -> dict[str, set[str]]:
        """Mark an item and all older ones as read, in the channel or (`global`) in all of them.

        Returns the ids that changed, by channel. One round trip for a channel that contains the item, unless the
        items are read everywhere.

        An item that has left the timeline still has its score; an id that was never in it changes nothing. Muted items
        aren't marked, because the user hasn't seen them, and saved ones only in `saved` itself. Raises NotFound.
        """
        marked = _Marked({uid: set()} if uid != GLOBAL else {})
        if uid != GLOBAL:
            has_left = await self._mark_until(user, uid, now, marked, item)
            score = (await self._items.scores([item]))[0] if has_left else None
            if score is not None:
                await self._mark_until(user, uid, now, marked, item, score)
            return marked.ids
        uids = await channels_named(self._redis, user, uid)
        sets = (keys.posts, keys.hidden)
        stands = await self._redis.pipeline([("ZSCORE", key(user, one), item) for key in sets for one in uids])
        found = next((text(one) for one in stands if one is not None), None)
        if found is None and await left_among(self._redis, user, uids, [item]):
            (found,) = await self._items.scores([item])
        if found is not None:
            await self._mark_everywhere(user, uids, now, marked, item, found)
        return marked.ids

    async def mark_after(self, user: str, uid: str, place: Cursor, now: float) -> dict[str, set[str]]:
        """Mark all items older than that place as read, as `mark_until` does; returns the ids that changed, by channel.

        The place needn't be that of an item. Raises NotFound.
        """
        return await self._mark_from(user, uid, now, place.item, place.score)

    async def mark_all(self, user: str, uid: str, now: float) -> set[str]:
        """Mark all items of the channel or `global` as read, except saved ones from elsewhere; returns the changed ids.

        Raises NotFound.
        """
        return set[str]().union(*(await self._mark_from(user, uid, now)).values())

    async def _mark_from(self, user: str, uid: str, now: float, item: str = "", score: str = "") -> dict[str, set[str]]:
        marked = _Marked()
        if uid == GLOBAL:
            uids = await channels_named(self._redis, user, uid)
            await self._mark_everywhere(user, uids, now, marked, item, score)
        else:
            await self._mark_until(user, uid, now, marked, item, score)
        return marked.ids

    async def mark_again(self, user: str, ids: Mapping[str, Sequence[str]], now: float) -> int:
        """Mark items as unread again, each in its channel alone; returns their number, of each once.

        Skips items and channels that have left.
        """
        parts = [(uid, part) for uid, listed in ids.items() for part in batches(listed)]
        marked = _Marked()
        while parts:
            some, parts = parts[:_AT_ONCE], parts[_AT_ONCE:]
            replies = await self._redis.scripts([_marking(user, uid, "unread here", now, *part) for uid, part in some])
            for (uid, part), reply in zip(some, replies, strict=True):
                if reply != -1:  # the channel hasn't been removed
                    marked.note(reply)
                    parts += [(uid, one) for one in batches(part[reply[1] :], reply[1])]
        return len(set[str]().union(*marked.ids.values()))

    async def _mark_everywhere(
        self, user: str, uids: Sequence[str], now: float, marked: _Marked, item: str = "", score: str = ""
    ) -> None:
        """Mark that item and all older ones as read; saved items, and feeds hidden in *All*, are left alone."""
        *found, everywhere = await self._redis.pipeline(
            [
                *(("EXISTS", keys.unread(user, uid)) for uid in uids),
                *(("EXISTS", keys.apart(user, uid)) for uid in uids),
                ("HGET", keys.user(user), READ_EVERYWHERE),
            ]
        )
        with_same = everywhere == b"yes"
        left = [uid for uid in compress(uids, found[: len(uids)]) if uid != SAVED]
        apart = {*compress(uids, found[len(uids) :])}
        for uid in apart.intersection(left):
            left.remove(uid)
            await self._mark_shown(user, uid, now, marked, Cursor(score, item) if item else None, with_same=with_same)
        elsewhere = await self._elsewhere(user, uids, left, apart) if with_same else {}
        places, seen = [(uid, (item, score)) for uid in left], dict[str, str]()
        while places:
            some, places = places[:_AT_ONCE], places[_AT_ONCE:]
            replies = await self._redis.scripts([_marking(user, uid, "until each", now, *place) for uid, place in some])
            listed = dict[str, Sequence[str]]()
            for (uid, _), reply in zip(some, replies, strict=True):
                if reply == -1:  # the channel has been removed
                    continue
                marked.note(reply)
                if reply[4]:
                    listed[uid] = split(reply[4])
                if reply[3]:
                    places.append((uid, _place(reply[3])))
            if listed:
                ids = distinct(item for shown in listed.values() for item in shown)
                await self._mark_same(user, ids, "read", now, marked)
                # First where no list shows them: a repetition finds only posts that are unread in the listed channels.
                await self._mark_in(
                    user, _by_channel((one, uid) for one in ids for uid in elsewhere.get(one, ())), now, marked
                )
                await self._mark_in(user, listed, now, marked)
                seen.update((one, uid) for uid, shown in listed.items() for one in shown)
        if seen:
            await self._mark_come(user, seen, elsewhere, now, marked)

    async def _elsewhere(
        self, user: str, uids: Sequence[str], left: Sequence[str], apart: Collection[str]
    ) -> dict[str, list[str]]:
        """The further channels of unread items of `left`: those that hide them, or have them unread but unlisted."""
        unread = await unread_in(self._redis, user, uids)
        wanted = {one for uid in left for one in unread[uid]}
        found = dict[str, list[str]]()
        for uid in {SAVED, *apart}.intersection(uids):
            for one in wanted.intersection(unread[uid]):
                found.setdefault(one, []).append(uid)
        for one, uid in await self._hidden(user, uids, wanted):
            found.setdefault(one, []).append(uid)
        return found

    async def _hidden(self, user: str, uids: Sequence[str], wanted: Collection[str]) -> list[tuple[str, str]]:
        """Those of the wanted items that channels hide, each with the channel."""
        have = await self._redis.pipeline([("EXISTS", keys.hidden(user, uid)) for uid in uids])
        found = list[tuple[str, str]]()
        for uid in compress(uids, have):
            async for ids in members(self._redis, keys.hidden(user, uid)):
                found += ((one, uid) for one in ids if one in wanted)
        return found

    async def _mark_come(
        self, user: str, seen: Mapping[str, str], elsewhere: Mapping[str, Sequence[str]], now: float, marked: _Marked
    ) -> None:
        """Mark items, with the channels in which they were read, also where they came in or were muted meanwhile.

        Items that the user has marked as unread meanwhile are unread in their channel too, and stay so.
        """
        uids = await channels_named(self._redis, user, GLOBAL)
        unread = await unread_in(self._redis, user, uids)
        again = {one for uid, ids in unread.items() for one in ids if seen.get(one) == uid}
        come = [(one, uid) for uid, ids in unread.items() for one in ids if one in seen and one not in again]
        muted = [pair for pair in await self._hidden(user, uids, seen) if pair[1] not in elsewhere.get(pair[0], ())]
        await self._mark_in(user, _by_channel([*come, *(pair for pair in muted if pair[0] not in again)]), now, marked)

    async def _mark_in(self, user: str, listed: Mapping[str, Sequence[str]], now: float, marked: _Marked) -> None:
        """Mark items as read by channel, in each alone."""
        for uid, ids in listed.items():
            with suppress(NotFound):  # the channel has been removed
                await self._mark_named(user, uid, ids, "read here", now, marked)

    async def _mark_shown(
        self, user: str, uid: str, now: float, marked: _Marked, first: Cursor | None, *, with_same: bool
    ) -> None:
        """Mark what *All* shows of the channel's unread items as read, from that place on."""
        with suppress(NotFound):  # the channel has been removed
            async for rows in walk_rows(self._redis, user, uid, unread_only=True):
                ids = [row.id for row in rows if first is None or not _is_before(row, first)]
                if not ids:
                    continue
                apart = await self._redis.command("SMISMEMBER", keys.apart(user, uid), *ids)
                shown = [*compress(ids, (not one for one in apart))]
                if with_same:
                    await self._mark_same(user, shown, "read", now, marked)
                await self._mark_named(user, uid, shown, "read", now, marked)

    async def _mark_until(
        self, user: str, uid: str, now: float, marked: _Marked, item: str = "", score: str = ""
    ) -> bool:
        """Mark the unread items of one channel as read, from that place on.

        True if the item has left the channel; without its `score` nothing was marked. Raises NotFound.
        """
        place = (item, score)
        while True:
            reply = await self._redis.script(_marking(user, uid, "until", now, *place))
            if reply == -1:
                raise await absent(self._redis, user, uid)
            marked.note(reply)
            if ids := split(reply[4]):
                # Duplicates first, so that a repetition finds both.
                await self._mark_same(user, ids, "read", now, marked)
                with suppress(NotFound):  # the channel has been removed
                    await self._mark_named(user, uid, ids, "read", now, marked)
            if not reply[3]:
                return bool(reply[2])
            place = _place(reply[3])


@dataclass(slots=True)
class _Marked:
    """The ids that changed, by channel, and the marked ones that count everywhere: their duplicates are marked too."""

    ids: dict[str, set[str]] = field(default_factory=dict)
    spreading: list[str] = field(default_factory=list)

    def note(self, reply: Sequence[Any]) -> None:
        """Take over a reply of lua/timeline_mark.lua."""
        channels, _, _, _, spreading = reply
        for uid, *ids in map(split, channels):
            self.ids.setdefault(uid, set()).update(ids)
        self.spreading += split(spreading)


async def agree(
    redis: Redis, arrivals: Mapping[ChannelKey, Sequence[TimelineItem]], now: float | None = None
) -> dict[ChannelKey, set[str]]:
    """The ids of items, by channel, that are read in another channel of users to whom that counts.

    With `now` they are marked as read, for which they must have come into the channel just now: others may be unread
    there on purpose. One round trip for a few hundred items, whatever the number of channels.
    """
    named = {
        at: [" ".join([one.id, *(same.item for same in one.duplicates)]) for one in arrivals[at]] for at in arrivals
    }
    how = {"how": "find" if now is None else "mark", "now": now or 0}
    found, done = {at: set[str]() for at in named}, dict.fromkeys(named, 0)
    while left := [at for at in named if done[at] < len(named[at])]:
        calls = [
            load("timeline_agree")(
                at[0], patterns=set_patterns(at[0]), uid=at[1], **how, items=named[at][done[at] : done[at] + BATCH]
            )
            for at in left
        ]
        for at, (examined, ids) in zip(left, await redis.scripts(calls), strict=True):
            done[at] += examined
            found[at].update(split(ids))
    return found


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


def _by_channel(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Items by channel, of pairs of both."""
    found = dict[str, list[str]]()
    for item, uid in pairs:
        found.setdefault(uid, []).append(item)
    return found


def _is_before(row: Row, place: Cursor) -> bool:
    """Whether the row is newer than the place, in the order of timelines."""
    here, there = float(row.score), float(place.score)
    return here > there or (here == there and row.id > place.item)


def _marking(user: str, uid: str, how: str, now: float, *rest: str) -> ScriptCall:
    """A call of lua/timeline_mark.lua."""
    return load("timeline_mark")(user, patterns=set_patterns(user), uid=uid, how=how, now=now, items=rest)
