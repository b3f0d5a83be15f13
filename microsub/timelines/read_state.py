"""Read state: marking items of a channel, or of all channels, as read or unread.

If posts of a user that are read in one channel are read everywhere, a mark in one channel counts in all that show or
hide the post, and for its duplicates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from microsub.accounts import absent
from microsub.base.errors import NotFound, StoreUnavailable
from microsub.model.reader import GLOBAL, SAVED, ChannelKey, Cursor, TimelineItem
from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Redis, ScriptCall
from microsub.redis.readings import piece_order
from microsub.redis.replies import text, texts
from microsub.redis.scan import walked
from microsub.redis.scripts import BATCH, batches, load
from microsub.timelines.gone import left_among
from microsub.timelines.pages import channels_named
from microsub.timelines.sync.arrivals import unread_in
from microsub.timelines.timelinekeys import ID_BATCH, distinct, set_patterns, split

READ_EVERYWHERE = "read_everywhere"
"""The user's setting: `yes` or `no`."""

_AT_ONCE = 8
"""Calls of one round trip that marks; more would delay others by more than a few milliseconds."""

_ASKED, _IN_ORDER = 500, 16_000
"""Items whose duplicates are asked for in one round trip, and items that are marked by their pieces of the times."""

_FEW, _MOST_LOOKS = 20, 50_000
"""Items that are always looked for one by one in all channels; and looks for more of them, each in each channel.

In 500 channels, a thousand items take the engine a thirtieth of the time if what is unread there is read instead.
"""


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
        ids, marked = distinct(ids), _Marked()
        if uid == GLOBAL and await self._are_many(user, ids):
            await self._mark_many(user, ids, state, now, marked)
        else:
            await self._mark_named(user, uid, ids, state, now, marked)
            await self._mark_same(user, marked.spreading, state, now, marked)
        return marked.ids

    async def _are_many(self, user: str, ids: Sequence[str]) -> bool:
        """Whether looking for each of them in all channels would take longer than reading what is unread there."""
        if not _FEW < len(ids) <= BATCH:
            return len(ids) > BATCH
        return len(ids) * int(await self._redis.command("ZCARD", keys.channels(user))) > _MOST_LOOKS

    async def mark_here(self, user: str, uid: str, ids: Sequence[str], now: float) -> dict[str, set[str]]:
        """As `mark_by_channel` for read items, but in that channel alone, also if they are read everywhere."""
        marked = _Marked()
        await self._mark_named(user, uid, distinct(ids), "read here", now, marked)
        return marked.ids

    async def _mark_same(
        self, user: str, ids: Sequence[str], state: Literal["read", "unread"], now: float, marked: _Marked
    ) -> None:
        """Mark the duplicates of items that are read everywhere, as the items are."""
        same = await self._same(ids)
        if ids := list(set[str]().union(*same.values()).difference(ids)):
            await self._mark_named(user, GLOBAL, ids, state, now, marked)

    async def _same(self, ids: Collection[str]) -> dict[str, set[str]]:
        """The duplicates of those of the items that have some."""
        found = dict[str, set[str]]()
        for part in batches([*ids], _ASKED):
            try:
                found |= await self._items.duplicates(part)
            except StoreUnavailable:  # of posts on another master: the other marks are made, and can be undone
                return found
        return found

    async def _mark_named(self, user: str, uid: str, ids: Sequence[str], how: str, now: float, marked: _Marked) -> None:
        at, size = 0, BATCH
        while True:
            reply = await self._redis.script(_marking(user, uid, how, now, *ids[at : at + size]))
            if reply == -1:
                raise await absent(self._redis, user, uid)
            marked.note(reply)
            at, size = at + reply[1], reply[1]
            if at >= len(ids):
                return

    async def _mark_many(
        self, user: str, ids: Iterable[str], state: Literal["read", "unread"], now: float, marked: _Marked,
        listed: Mapping[str, Collection[str]] | None = None,
    ) -> None:  # fmt: skip
        """Mark items in all channels, one channel after the other, and their duplicates.

        A repetition finds only those that are unread where they were `listed` by channel, or anywhere: so they are
        marked last there.
        """
        uids, wanted = await channels_named(self._redis, user, GLOBAL), {*ids}
        everywhere = await self._redis.command("HGET", keys.user(user), READ_EVERYWHERE) == b"yes"
        if state == "unread":
            found = await self._having(user, uids, wanted)
            if everywhere:
                known = set[str]().union(*found.values())
                same = await self._having(user, uids, set[str]().union(*(await self._same(known)).values()) - known)
                found = {uid: some | same[uid] for uid, some in found.items()}
            await self._mark_here(user, found, "unread", now, marked)
            return
        unread, hidden = await self._there(user, uids)
        known = set[str]().union(*unread.values(), *hidden.values())
        named, wanted = wanted, wanted & known
        last = dict.fromkeys(uids, wanted) if listed is None else listed
        if everywhere:
            others = known - wanted
            wanted = wanted | await self._same_among(wanted, others)
            wanted |= await self._same_of_read(user, uids, named - known, others, hidden)
        found = {uid: wanted & (unread[uid] | hidden[uid]) for uid in uids}
        first = {uid: some.difference(last.get(uid, ())) for uid, some in found.items()}
        await self._mark_here(user, first, "read", now, marked)
        await self._mark_here(user, {uid: some - first[uid] for uid, some in found.items()}, "read", now, marked)
        if everywhere:
            # Posts that came in meanwhile. Those that the user has marked as unread meanwhile stay so.
            unread, hidden = await self._there(user, await channels_named(self._redis, user, GLOBAL))
            wanted |= await self._same_among(wanted, set[str]().union(*unread.values(), *hidden.values()) - known)
            wanted -= {one for uid, some in unread.items() for one in some.intersection(found.get(uid, ()))}
            come = {uid: wanted & (some | hidden[uid]).difference(found.get(uid, ())) for uid, some in unread.items()}
            await self._mark_here(user, come, "read", now, marked)

    async def _there(self, user: str, uids: Sequence[str]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """The unread and the hidden items of each of these channels."""
        unread = await unread_in(self._redis, user, uids)
        return {uid: {*ids} for uid, ids in unread.items()}, await self._hidden(user, uids)

    async def _hidden(self, user: str, uids: Sequence[str]) -> dict[str, set[str]]:
        """The items that each of these channels hides."""
        found = await walked(self._redis, "ZSCAN", [keys.hidden(user, uid) for uid in uids])
        return {uid: {*texts(flat[::2])} for uid, flat in zip(uids, found.values(), strict=True)}

    async def _having(
        self, user: str, uids: Sequence[str], ids: Set[str], hidden: Mapping[str, Set[str]] | None = None
    ) -> dict[str, set[str]]:
        """Those of the items that each of these channels shows or hides."""
        found = {uid: {*(some & ids)} for uid, some in (hidden or await self._hidden(user, uids)).items()}
        for some in batches(uids, _AT_ONCE * _AT_ONCE):
            async for uid, shown in self._scores(user, dict.fromkeys(some, ids)):
                found[uid].update(one for one, _ in shown)
        return found

    async def _scores(
        self, user: str, wanted: Mapping[str, Collection[str]]
    ) -> AsyncIterator[tuple[str, list[tuple[str, bytes]]]]:
        """Those of the items that each channel shows, with their scores, by parts: channel, items."""
        parts = [(uid, part) for uid, ids in wanted.items() for part in batches([*ids])]
        longest = max((len(part) for _, part in parts), default=1)
        for some in batches(parts, _AT_ONCE * min(_AT_ONCE, BATCH // longest)):
            looks = [("ZMSCORE", keys.posts(user, uid), *part) for uid, part in some]
            for (uid, part), scores in zip(some, await self._redis.pipeline(looks), strict=True):
                yield uid, [(one, at) for one, at in zip(part, scores, strict=True) if at is not None]

    async def _same_among(self, wanted: Set[str], others: Set[str]) -> set[str]:
        """The duplicates of the wanted items among the others. Of both, the fewer ones are asked for theirs."""
        if len(wanted) <= len(others):
            return set[str]().union(*(await self._same(wanted)).values()) & others
        return {one for one, same in (await self._same(others)).items() if not wanted.isdisjoint(same)}

    async def _same_of_read(
        self, user: str, uids: Sequence[str], ids: Set[str], others: Set[str], hidden: Mapping[str, Set[str]]
    ) -> set[str]:
        """The duplicates among the others of those items that a channel has, though none is unread."""
        same = {one: some & others for one, some in (await self._same(ids)).items() if some & others}
        there = (await self._having(user, uids, {*same}, hidden)).values() if same else ()
        return set[str]().union(*(same[one] for one in set[str]().union(*there)))

    async def _mark_here(
        self, user: str, found: Mapping[str, Collection[str]], state: Literal["read", "unread"], now: float,
        marked: _Marked,
    ) -> None:  # fmt: skip
        """Mark items by channel, in each alone, several in a round trip. Skips channels that have been removed."""
        parts = list[tuple[str, Sequence[str]]]()
        for uid, some in found.items():
            ordered = await asyncio.to_thread(_in_order, some) if len(some) > ID_BATCH else [*some]
            parts += ((uid, part) for part in batches(ordered, ID_BATCH))
        for turn in batches(parts, _AT_ONCE):
            calls = [_marking(user, uid, f"{state} here", now, *part) for uid, part in turn]
            for reply in await self._redis.scripts(calls):
                if reply != -1:
                    marked.note(reply)

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
        marked = _Marked()
        await self._mark_here(user, ids, "unread", now, marked)
        return len(set[str]().union(*marked.ids.values()))

    async def _mark_everywhere(
        self, user: str, uids: Sequence[str], now: float, marked: _Marked, item: str = "", score: str = ""
    ) -> None:
        """Mark that item and all older ones as read; saved items, and feeds hidden in *All*, are left alone."""
        uids = [uid for uid in uids if uid != SAVED]
        unread = await unread_in(self._redis, user, uids)
        *apart, everywhere = await self._redis.pipeline(
            [*(("SMEMBERS", keys.apart(user, uid)) for uid in uids), ("HGET", keys.user(user), READ_EVERYWHERE)]
        )
        listed = {uid: {*unread[uid]}.difference(texts(some)) for uid, some in zip(uids, apart, strict=True)}
        if item:
            listed = await self._from(user, listed, Cursor(score, item))
        if everywhere == b"yes":
            await self._mark_many(user, chain(*listed.values()), "read", now, marked, listed)
        else:
            await self._mark_here(user, listed, "read", now, marked)

    async def _from(self, user: str, listed: Mapping[str, Collection[str]], first: Cursor) -> dict[str, set[str]]:
        """Those items of each channel that aren't newer than the place."""
        found, place = {uid: set[str]() for uid in listed}, (float(first.score), first.item)
        async for uid, shown in self._scores(user, listed):
            found[uid].update(one for one, at in shown if (float(at), one) <= place)
        return found

    async def _mark_until(
        self, user: str, uid: str, now: float, marked: _Marked, item: str = "", score: str = ""
    ) -> bool:
        """Mark the unread items of one channel as read, from that place on.

        True if the item has left the channel; without its `score` nothing was marked. Raises NotFound.
        """
        place, ids = (item, score), list[str]()
        while True:
            reply = await self._redis.script(_marking(user, uid, "until", now, *place))
            if reply == -1:
                raise await absent(self._redis, user, uid)
            marked.note(reply)
            ids += split(reply[4])
            if not reply[3]:
                break
            place = _place(reply[3])
        if len(ids) > BATCH:
            await self._mark_many(user, ids, "read", now, marked, {uid: ids})
        elif ids:
            # Duplicates first, so that a repetition finds both.
            await self._mark_same(user, ids, "read", now, marked)
            with suppress(NotFound):  # the channel has been removed
                await self._mark_named(user, uid, ids, "read", now, marked)
        return bool(reply[2])


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
    parts = batches(sorted(ids, key=int, reverse=True), _IN_ORDER)
    return [one for part in parts for one in sorted(part, key=piece_order)]


def _marking(user: str, uid: str, how: str, now: float, *rest: str) -> ScriptCall:
    """A call of lua/timeline_mark.lua."""
    return load("timeline_mark")(user, patterns=set_patterns(user), uid=uid, how=how, now=now, items=rest)
