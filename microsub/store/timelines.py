"""Timelines: what a user's channels show, what is unread in them, and what has left them.

Everything that must change together is one script on one user's slot (lua/timeline_*.lua, each with its reasons). An
item is in at most one of posts, hidden and `gone` of a channel; the posts are the unread and the read ones. All times
are Unix seconds. `uid` is a channel of the user, or `global` where a method says so. Where it isn't said otherwise, a
user or channel that doesn't exist raises NotFound, and ids that aren't in the timeline are ignored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from microsub.model.reader import Credential, Cursor, Grant, PageQuery, PageRows, TimelineItem
from microsub.store import keys
from microsub.store.absent import absent
from microsub.store.accounts import grant
from microsub.store.adding import Added, Filling, Target, add_args, add_keys, added, item_args, newest_first, together
from microsub.store.lookup import ItemLookup
from microsub.store.pages import Walk, read_page, read_walk
from microsub.store.port import Arg, Redis
from microsub.store.scripts import load
from microsub.store.settling import settle
from microsub.store.timelinekeys import (
    BATCH,
    Reason,
    batch_for,
    batches,
    counted,
    rule_keys,
    set_keys,
    set_patterns,
    split,
    urls,
)

__all__ = ["Added", "Places", "Reason", "Target", "Timelines"]

Places = Callable[[Sequence[str]], Awaitable[list[str | None]]]
"""Scores of items as text, None where an item doesn't exist any more (`store.items.Items.places`)."""


class Timelines:
    """The timelines of all users. `items` answers what ids stand for."""

    def __init__(self, redis: Redis, items: ItemLookup) -> None:
        self._redis = redis
        self._items = items

    # --- reading -------------------------------------------------------------------------------------------------

    async def page(self, user: str, uid: str, query: PageQuery, now: float) -> PageRows:
        """A page of one channel or of `global`, newest first. `query.source` is a feed id.

        One round trip for the views `all` and `unread`; at most 1,000 ids are examined for the others.
        """
        _, rows = await read_page(self._redis, user, uid, query, now, None, self._items.in_feed)
        return rows

    async def page_with_token(
        self, credential: Credential, uid: str, query: PageQuery, now: float
    ) -> tuple[Grant, PageRows]:
        """`page` of the token's user, the token checked in the same round trip. Raises Unauthorized."""
        user = credential.user
        scope, rows = await read_page(self._redis, user, uid, query, now, credential, self._items.in_feed)
        return grant(user, scope), rows

    async def walk(self, user: str, uid: str, limit: int, after: Cursor | None, unread_only: bool = False) -> PageRows:
        """Up to `limit` (at most 1,000) rows behind a cursor, for jobs that visit a whole timeline."""
        walk = Walk(min(limit, BATCH), unread_only, "after" if after else "", after)
        return (await read_walk(self._redis, user, uid, walk, 0))[1]

    # --- coming in -----------------------------------------------------------------------------------------------

    async def add(
        self, user: str, uid: str, feed_id: str, items: Sequence[TimelineItem], *, now: float, limit: int,
        fresh: int = 10,
    ) -> Added:  # fmt: skip
        """Take a feed's items into one timeline; see `Added` for what becomes of them. Doing it again changes nothing.

        The first items of a feed after `Channels.follow` are its first fill: give them in one call. Those published
        before the follow come in as read, but for the `fresh` newest. Doesn't raise for a channel that is gone.
        """
        return (await self.add_to([Target(user, uid, limit)], feed_id, items, now=now, fresh=fresh))[0]

    async def add_to(
        self, targets: Sequence[Target], feed_id: str, items: Sequence[TimelineItem], *, now: float, fresh: int = 10
    ) -> list[Added]:
        """`add` to several timelines, of several users, in one round trip; results in the order of `targets`."""
        results: list[list[Added]] = [[] for _ in targets]
        fillings = [Filling(fresh) for _ in targets]
        for batch in batches(newest_first(items)):
            args = item_args(batch)
            replies = await self._redis.scripts(
                [
                    (load("timeline_add"), add_keys(target), add_args(feed_id, args, target.limit, filling, now))
                    for target, filling in zip(targets, fillings, strict=True)
                ]
            )
            for index, reply in enumerate(replies):
                results[index].append(added(reply))
                if not reply[0] and reply[6]:
                    fillings[index] = Filling(0, reply[6])
        return [together(parts) if parts else Added() for parts in results]

    async def put(self, user: str, uid: str, item: TimelineItem, now: float, limit: int = 0) -> Added:
        """Take in an item that comes from no feed; rules, limit and `gone` hold as in `add`. Raises NotFound."""
        target = Target(user, uid, limit)
        reply = await self._redis.script(
            load("timeline_add"), add_keys(target), add_args("", item_args([item]), limit, Filling(0), now)
        )
        if reply[0]:
            raise await absent(self._redis, user, uid)
        return added(reply)

    # --- read state ----------------------------------------------------------------------------------------------

    async def mark_read(self, user: str, uid: str, ids: Sequence[str], now: float) -> int:
        """Mark items as read, in one channel or (`global`) wherever they are; returns how many items changed."""
        return await self._mark(user, uid, ids, "read", now)

    async def mark_unread(self, user: str, uid: str, ids: Sequence[str], now: float) -> int:
        """The inverse of `mark_read`."""
        return await self._mark(user, uid, ids, "unread", now)

    async def _mark(self, user: str, uid: str, ids: Sequence[str], state: str, now: float) -> int:
        count = 0
        for batch in batches(_distinct(ids), batch_for(uid)) if ids else [[]]:
            args: list[Arg] = [*set_patterns(user), uid, state, now, *batch]
            count += await self._counted(user, uid, "timeline_mark", [keys.channels(user)], args)
        return count

    async def mark_read_before(self, user: str, uid: str, last_read_entry: str, place_of: Places, now: float) -> int:
        """Mark that item and everything older in the channel (or in all, for `global`) as read; returns how many.

        An item that has left the timeline stands for its former place, which `place_of` tells; an id that was never in
        it changes nothing. Works in batches.
        """
        score = ""
        reply = await self._mark_before(user, uid, last_read_entry, score, now)
        if reply[0] == b"gone":
            (place,) = await place_of([last_read_entry])
            if place is None:
                return 0
            reply = await self._mark_before(user, uid, last_read_entry, place, now)
        if reply[0] == b"unknown":
            return 0
        return await self._mark_rest(user, uid, last_read_entry, reply, now)

    async def mark_all_read(self, user: str, uid: str, now: float) -> int:
        """Mark everything that the channel (or `global`) shows as read; returns how many changed. Works in batches."""
        return await self._mark_rest(user, uid, "", await self._mark_before(user, uid, "", "", now), now)

    async def _mark_rest(self, user: str, uid: str, item: str, reply: list[bytes | int], now: float) -> int:
        count = int(reply[1])
        while reply[2]:
            score = reply[3]
            reply = await self._mark_before(user, uid, item, score, now)
            count += int(reply[1])
        return count

    async def _mark_before(self, user: str, uid: str, item: str, score: Arg, now: float) -> list[bytes | int]:
        args = [*set_patterns(user), uid, now, batch_for(uid), item, score]
        reply: list[bytes | int] = await self._redis.script(load("timeline_mark_before"), [keys.channels(user)], args)
        if reply[0] == b"channel":
            raise await absent(self._redis, user, uid)
        return reply

    # --- leaving -------------------------------------------------------------------------------------------------

    async def remove(self, user: str, uid: str, ids: Sequence[str], now: float) -> int:
        """Take items out for good, of one channel or (`global`) of all; returns how many."""
        return len(await self._leave(user, uid, ids, Reason.REMOVED, now, [keys.channels(user)]))

    async def withdraw(
        self, user: str, uid: str, ids: Sequence[str], reason: Reason, now: float, only_unread: bool = False
    ) -> int:
        """Take items out for any reason, of a channel that may be removed too; returns how many left.

        With `only_unread` an item that was read by the time of the call stays.
        """
        script_keys = [keys.channels(user), keys.removed_channels(user)]
        return len(await self._leave(user, uid, ids, reason, now, script_keys, only_unread))

    async def _leave(
        self, user: str, uid: str, ids: Sequence[str], reason: Reason, now: float, script_keys: Sequence[str],
        only_unread: bool = False, unless_followed: str = "",
    ) -> list[str]:  # fmt: skip
        left: list[str] = []
        condition = ["unread" if only_unread else "", unless_followed, keys.channel_feeds(user, uid)]
        for batch in batches(_distinct(ids), batch_for(uid)) if ids else [[]]:
            args: list[Arg] = [*set_patterns(user), uid, int(now), int(reason), *condition, *batch]
            reply = await self._redis.script(load("timeline_leave"), script_keys, args)
            if isinstance(reply, int):
                raise await absent(self._redis, user, uid)
            left += split(reply)
        return left

    async def move(self, user: str, target: str, ids: Sequence[str], now: float) -> int:
        """Move items from wherever the user sees them into the channel `target`, with their read state.

        Returns how many moved. Items that the target blocks stay where they are; those that it mutes go to its hidden.
        """
        count = 0
        for batch in batches(_distinct(ids), batch_for("global")) if ids else [[]]:
            known = {item.id: item for item in await self._items.timeline_items(batch)}
            args: list[Arg] = [*set_patterns(user), target, int(now)]
            for item_id in batch:
                args += [item_id, *counted(urls(known[item_id]) if item_id in known else [])]
            script_keys = [keys.channels(user), *rule_keys(user, target)]
            count += await self._counted(user, target, "timeline_move", script_keys, args)
        return count

    async def unfollow(self, user: str, uid: str, feed_id: str, now: float) -> int:
        """After `Channels.unfollow`: the feed's unread items leave; where another feed of the channel has a copy of the
        post, that takes the place. Returns how many left. Stops when the feed is followed again.
        """
        count = 0
        for part in ("posts", "hidden"):
            cursor: Cursor | None = None
            while rows := await self._unread_part(user, uid, part, cursor):
                cursor = rows[-1]
                mine = await self._items.in_feed(feed_id, [row.item for row in rows])
                ids = [row.item for row in rows if row.item in mine]
                for batch in batches(ids):
                    count += await self._hand_over(user, uid, feed_id, batch, now)
        return count

    async def _unread_part(self, user: str, uid: str, part: str, after: Cursor | None) -> list[Cursor]:
        if part == "posts":
            return [Cursor(row.score, row.id) for row in (await self.walk(user, uid, BATCH, after, True)).rows]
        return [] if after else await hidden_items(self._redis, user, uid)

    async def _hand_over(self, user: str, uid: str, feed_id: str, ids: Sequence[str], now: float) -> int:
        twins = {
            item.id: [twin for twin in item.twins if twin.feed != feed_id]
            for item in await self._items.timeline_items(ids)
            if item.twins
        }
        wanted = [twin.item for pairs in twins.values() for twin in pairs]
        copies = {item.id: item for item in await self._items.timeline_items(wanted)} if wanted else {}
        args: list[Arg] = [int(now), feed_id]
        for item_id, pairs in twins.items():
            found = [(copies[twin.item], twin.feed) for twin in pairs if twin.item in copies]
            args += [item_id, len(found)]
            for copy, feed in found:
                args += [copy.id, copy.score, feed, *counted(urls(copy))]
        left: list[str] = []
        if twins:
            script_keys = [keys.channel_feeds(user, uid), *set_keys(user, uid), *rule_keys(user, uid)]
            left += split(await self._redis.script(load("timeline_swap"), script_keys, args))
        rest = [item_id for item_id in ids if item_id not in left]
        channels = [keys.channels(user), keys.removed_channels(user)]
        if rest:
            left += await self._leave(user, uid, rest, Reason.UNFOLLOWED, now, channels, True, feed_id)
        return len(left)

    # --- rules ---------------------------------------------------------------------------------------------------

    async def recheck(self, user: str, uid: str, item: TimelineItem, now: float) -> bool:
        """Hold an item whose author or sources have become known against the rules; returns whether it moved."""
        return bool(await settle(self._redis, user, uid, [item], now))

    async def _counted(self, user: str, uid: str, script: str, script_keys: Sequence[str], args: Sequence[Arg]) -> int:
        count: int = await self._redis.script(load(script), script_keys, args)
        if count < 0:
            raise await absent(self._redis, user, uid)
        return count


async def hidden_items(redis: Redis, user: str, uid: str) -> list[Cursor]:
    """All muted items of a channel with their places, newest first."""
    reply = await redis.command("ZREVRANGE", keys.hidden(user, uid), 0, -1, "WITHSCORES")
    return [Cursor(score.decode(), item.decode()) for item, score in zip(reply[0::2], reply[1::2], strict=True)]


def _distinct(ids: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ids))
