"""Timelines: what a user's channels show, what is unread in them, and what has left them.

Everything that must change together is one script on one user's slot (lua/timeline_*.lua, each with its reasons). An
item is in at most one of posts, hidden and `gone` of a channel; the posts are the unread and the read ones. All times
are Unix seconds. `uid` is a channel of the user, or `global` where a method says so. Where it isn't said otherwise, a
user or channel that doesn't exist raises NotFound, and ids that aren't in the timeline are ignored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from microsub.identity.store.absent import absent
from microsub.identity.store.accounts import grant
from microsub.model.reader import Credential, Cursor, Grant, PageQuery, PageRows, Reason, TimelineItem
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.timelines.store.adding import UNFILTERED, Added, Adding, Target
from microsub.timelines.store.expiry import (
    OldBatch,
    OldItem,
    Stock,
    expire_read,
    forget,
    left_before,
    left_count,
    old_unread,
    stock,
    trim,
)
from microsub.timelines.store.filtering import Delivery
from microsub.timelines.store.leaving import Leaving, inherit, leave, left_for_good, move, take_back, unfollow
from microsub.timelines.store.lookup import ItemLookup
from microsub.timelines.store.pages import Walk, read_page, read_walk
from microsub.timelines.store.read_state import Places, mark, mark_all, mark_before
from microsub.timelines.store.references import members
from microsub.timelines.store.restoring import Left, begin, restore
from microsub.timelines.store.settling import settle_in
from microsub.timelines.store.timelinekeys import BATCH

_MOST_FILTERING = 10_000
"""Channels of which a process remembers by what they filter."""

__all__ = ["Added", "Delivery", "Left", "OldBatch", "OldItem", "Places", "Reason", "Stock", "Target", "Timelines"]


class Timelines:
    """The timelines of all users. `items` answers what ids stand for."""

    def __init__(self, redis: Redis, items: ItemLookup) -> None:
        self._redis = redis
        self._items = items
        self._filtering: dict[tuple[str, str], bytes] = {}

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
        return grant(user, scope, behind=rows.behind), rows

    async def walk(self, user: str, uid: str, limit: int, after: Cursor | None, unread_only: bool = False) -> PageRows:
        """Up to `limit` (at most 1,000) rows behind a cursor, for jobs that visit a whole timeline."""
        walk = Walk(min(limit, BATCH), unread_only, "after" if after else "", after)
        return (await read_walk(self._redis, user, uid, walk, 0))[1]

    # --- coming in -----------------------------------------------------------------------------------------------

    async def add(
        self, user: str, uid: str, feed_id: str, items: Sequence[TimelineItem], *, now: float, limit: int,
        fresh: int = 10, unfiltered: bool = False,
    ) -> Added:  # fmt: skip
        """Take a feed's items into one timeline; see `Added` for what becomes of them. Doing it again changes nothing.

        The first items of a feed after `Channels.follow` are its first fill: give them in one call. Those published
        before the follow come in as read, but for the `fresh` newest. The channel's own settings take precedence over
        `limit` (0: none) and `fresh`, and its filters choose, unless the items are to come in `unfiltered`. Doesn't
        raise for a channel that is gone.
        """
        delivery = self.delivery(feed_id, items, now, unfiltered=unfiltered)
        added = (await self.add_to([Target(user, uid, limit, fresh)], delivery))[0]
        dead = await take_back(self._redis, self._items, user, uid, added.all_taken, now)
        return added.without(dead) if dead else added

    def delivery(
        self, feed_id: str, items: Sequence[TimelineItem], now: float, *, unfiltered: bool = False, again: str = ""
    ) -> Delivery:
        """Items of a feed for `add_to`; `again` is `adding.AGAIN` or `DOUBT` where they may have been there before."""
        return Delivery(self._items, feed_id, items, now, unfiltered=unfiltered, again=again)

    async def add_to(self, targets: Sequence[Target], delivery: Delivery) -> list[Added]:
        """`add` to several timelines, of several users; results in the order of `targets`. Whether an item was deleted
        meanwhile is left to the caller to see.

        One round trip, and another one for channels whose filters this process doesn't know yet.
        """
        remembered = self._filtering
        addings = [
            Adding(one, UNFILTERED if delivery.unfiltered else remembered.get((one.user, one.uid), b""))
            for one in targets
        ]
        due = addings
        while due:
            ways = [await delivery.args(one.chosen_by) for one in due]
            pairs = [(one, way) for one, way in zip(due, ways, strict=True) if way]
            replies = await self._redis.scripts(
                [one.call(delivery.feed, delivery.now, way[one.step]) for one, way in pairs]
            )
            due = [one for (one, way), reply in zip(pairs, replies, strict=True) if one.heard(reply, len(way))]
            for one in due:
                self._remember(one.target, one.chosen_by)
        return [one.result() for one in addings]

    def _remember(self, target: Target, filters: bytes) -> None:
        """What a channel filters by, so that the next delivery is chosen by them at once."""
        if filters:
            if len(self._filtering) >= _MOST_FILTERING:
                self._filtering.clear()
            self._filtering[target.user, target.uid] = filters
        else:
            self._filtering.pop((target.user, target.uid), None)

    async def filtering(self, places: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of the channels (user, uid) that filter. One round trip."""
        texts = await self._redis.pipeline([("HGET", keys.channel(*place), "filters") for place in places])
        return [place for place, text in zip(places, texts, strict=True) if text]

    async def left_of(self, user: str, uid: str, now: float) -> Left:
        """What is left of a timeline that may have been lost; what comes next into a blank one, at `now`, counts as its
        first fill.
        """
        return await begin(self._redis, user, uid, now)

    async def restore(self, user: str, uid: str, now: float) -> int:
        """Show again what is known to be read or unread in a channel though its posts were lost; how many."""
        return await restore(self._redis, self._items, user, uid, now)

    async def put(
        self, user: str, uid: str, item: TimelineItem, now: float, limit: int = 0, *, unfiltered: bool = False
    ) -> Added:
        """Take in an item that comes from no feed; all that keeps items out holds as in `add`.

        Raises NotFound.
        """
        result = await self.add(user, uid, "", [item], now=now, limit=limit, fresh=0, unfiltered=unfiltered)
        if not result.subscribed:
            raise await absent(self._redis, user, uid)
        return result

    # --- read state ----------------------------------------------------------------------------------------------

    async def mark_read(self, user: str, uid: str, ids: Sequence[str], now: float) -> int:
        """Mark items as read, in one channel or (`global`) wherever they are; returns how many items changed."""
        return await mark(self._redis, user, uid, ids, "read", now)

    async def mark_unread(self, user: str, uid: str, ids: Sequence[str], now: float) -> int:
        """The inverse of `mark_read`."""
        return await mark(self._redis, user, uid, ids, "unread", now)

    async def mark_read_before(self, user: str, uid: str, last_read_entry: str, place_of: Places, now: float) -> int:
        """Mark that item and everything older in the channel (or in all, for `global`) as read; returns how many.

        An item that has left the timeline stands for its former place, which `place_of` tells; an id that was never in
        it changes nothing. Works in batches.
        """
        return await mark_before(self._redis, user, uid, last_read_entry, place_of, now)

    async def mark_all_read(self, user: str, uid: str, now: float) -> int:
        """Mark everything that the channel (or `global`) shows as read; returns how many changed. Works in batches."""
        return await mark_all(self._redis, user, uid, now)

    # --- leaving -------------------------------------------------------------------------------------------------

    async def remove(self, user: str, uid: str, ids: Sequence[str], now: float) -> int:
        """Take items out for good, of one channel or (`global`) of all; returns how many."""
        return len(await leave(self._redis, user, uid, ids, Leaving(Reason.REMOVED, removed_too=False), now))

    async def withdraw(
        self, user: str, uid: str, ids: Sequence[str], reason: Reason, now: float, only_unread: bool = False
    ) -> int:
        """Take items out for any reason, of a channel that may be removed too; returns how many left.

        With `only_unread` an item that was read by the time of the call stays.
        """
        return len(await leave(self._redis, user, uid, ids, Leaving(reason, only_unread), now))

    async def move(self, user: str, target: str, ids: Sequence[str], now: float, *, hidden_too: bool = False) -> int:
        """Move items from wherever the user sees them into the channel `target`, with their read state; with
        `hidden_too` also from where they are muted.

        Returns how many moved. Items that the target blocks stay where they are; those that it mutes go to its hidden.
        """
        return await move(self._redis, self._items, user, target, ids, now, hidden_too=hidden_too)

    def hidden(self, user: str, uid: str) -> AsyncIterator[list[str]]:
        """Ids that the channel hides, because they are muted there, in batches; an id may come repeatedly."""
        return members(self._redis, keys.hidden(user, uid))

    async def unfollow(self, user: str, uid: str, feed_id: str, now: float) -> int:
        """After `Channels.unfollow`: the feed's unread items leave; where another feed of the channel has a copy of the
        post, that takes the place. Returns how many left. Takes nothing when the feed is followed (again).
        """
        return await unfollow(self._redis, self._items, user, uid, feed_id, now)

    async def left_for_good(self, user: str, uid: str, ids: Sequence[str]) -> set[str]:
        """Those of the ids that have left the channel and never come back to it: removed, read long ago, evicted, …"""
        return await left_for_good(self._redis, user, uid, ids)

    async def inherit(self, user: str, source: str, target: str, ids: Sequence[str]) -> int:
        """Let those of the ids that have left the channel `source` for good stay out of `target` too; how many."""
        return await inherit(self._redis, user, source, target, ids)

    async def recheck_in(self, places: Sequence[tuple[str, str]], items: Sequence[TimelineItem], now: float) -> int:
        """Hold items whose author or sources have become known against the rules of several channels (user, uid); how
        many moved. One round trip.
        """
        return sum(map(len, await settle_in(self._redis, places, items, now)))

    # --- retention; none of these raises for a channel that isn't there -----------------------------------------------

    async def stock(self, user: str, uid: str, read_until: float) -> Stock:
        """Count a channel's items, and those read at `read_until` or before."""
        return await stock(self._redis, user, uid, read_until)

    async def expire_read(self, user: str, uid: str, read_until: float, now: float) -> int:
        """Let go what was read at `read_until` or before; returns how many left. Works in batches."""
        return await expire_read(self._redis, user, uid, read_until, now)

    async def trim(self, user: str, uid: str, limit: int, now: float) -> int:
        """Let go the oldest items beyond `limit`, shown and hidden ones each; returns how many. Works in batches."""
        return await trim(self._redis, user, uid, limit, now)

    async def old_unread(self, user: str, uid: str, published_until: float, skip: int, hidden: bool) -> OldBatch:
        """One batch of the unread items (shown or muted) published at `published_until` or before, oldest first."""
        return await old_unread(self._redis, user, uid, published_until, skip, hidden)

    async def left_count(self, user: str, uid: str, until: float) -> int:
        """How many ids left the channel before a time, and are remembered."""
        return await left_count(self._redis, user, uid, until)

    async def left_before(self, user: str, uid: str, until: float, skip: int) -> list[str]:
        """Up to 1,000 ids that left the channel before a time, the first to leave first, behind `skip` of them."""
        return await left_before(self._redis, user, uid, until, skip)

    async def forget(self, user: str, uid: str, ids: Sequence[str]) -> int:
        """Forget that items left: only for such as don't exist any more and can't return. Returns how many."""
        return await forget(self._redis, user, uid, ids)
