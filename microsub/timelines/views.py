"""Pages and lists of channels, and their unread counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from copy import copy
from functools import partial
from itertools import chain
from sys import intern
from typing import NamedTuple, TypeVar

from microsub.accounts import ActivityNotes, grant
from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import NotFound, StoreUnavailable
from microsub.base.locks import KeyedLocks
from microsub.base.plaintext import by_name
from microsub.base.urls import mask_credentials
from microsub.feeds import FAILURE_FIELDS, ICON, Feeds, fails
from microsub.model.reader import GLOBAL, Channel, Credential, Cursor, Grant, PageQuery, PageRows, Row, Subscription
from microsub.model.settings import UnreadStyle
from microsub.posts import Items, Texts
from microsub.redis import keys
from microsub.redis.foresight import read_again
from microsub.redis.protocol import Redis
from microsub.redis.readings import last_read
from microsub.redis.replies import reached, text
from microsub.redis.scripts import batches
from microsub.timelines.backlog import CatchUp
from microsub.timelines.channels.follows import every_channel, in_turns
from microsub.timelines.channels.store import ChannelNames, Channels
from microsub.timelines.feed_names import feed_name
from microsub.timelines.full_text import ShownText, shown_text
from microsub.timelines.item_cache import ItemCache
from microsub.timelines.own_view import OwnView
from microsub.timelines.pages import EXAMINED, NewestUnread, read_page, rows_in, shown, walk_rows
from microsub.timelines.restore import states_of
from microsub.timelines.splicer import Splicer
from microsub.timelines.sync.arrivals import ArrivalQuery, Arrivals, keep_order, read_arrivals, unread_in

MOST_COUNTED = 10_000
"""Unread items of a channel that are counted by feed, the newest ones."""
_MOST_ITEMS = 100_000
"""Maximum number of items whose feed a process caches."""
_MANY = 5000
"""Items from which on their feeds are asked, instead of each item."""
_LAST_READ, _LOOKED_AT, _AT_ONCE = 50, 1000, 5
"""Posts read last that are listed, those among which they are found, and those that may have been read in a second."""
_MOST_MERGES = 5
"""Maximum number of replacements of a feed that are followed to find its current id."""


class SourceCount(NamedTuple):
    """A feed in a channel, with its name for the user, and the number of its unread items there.

    `tree` also gives the number of all its items and the Unix time of its newest post or edit, None without posts;
    `branch` its own picture, and whether it can't be read: it is gone, or its last poll failed.
    """

    feed: str
    url: str
    name: str
    unread: int
    total: int = 0
    last_update: float | None = None
    photo: str = ""
    is_failing: bool = False


StyleOf = Callable[[str], Awaitable[UnreadStyle]]
"""Maps a user to the style of unread counts that the user's channels inherit."""


async def counted(_user: str) -> UnreadStyle:
    """The default style for every user."""
    return "count"


T = TypeVar("T")


class ReaderViews:
    """Pages and lists of channels for their user.

    Times are Unix seconds; `uid` may be `global` for pages. Every method raises NotFound for an unknown channel.
    """

    def __init__(
        self,
        redis: Redis,
        channels: Channels,
        feeds: Feeds,
        items: Items,
        cache: ItemCache,
        *,
        style: StyleOf = counted,
        catch_up: CatchUp | None = None,
        seen: ActivityNotes[str] | None = None,
    ) -> None:
        self._redis = redis
        self._channels = channels
        self._feeds = feeds
        self._items = items
        self._cache = cache
        self.style = style
        """Gives the style of unread counts for channels without one of their own."""
        self._catch_up = catch_up
        self._seen = seen
        self._splicer = Splicer()
        self.own_view = OwnView(channels, feeds)
        self._feed_of: BoundedCache[str, str] = BoundedCache(_MOST_ITEMS)
        self._turns = KeyedLocks()
        self._orders = KeyedLocks()
        self._newest = NewestUnread()

    def over(self, redis: Redis, channels: Channels, feeds: Feeds, items: Items) -> ReaderViews:
        """The same views by another connection: all that these remember and fill is shared, and ends with these."""
        made = copy(self)
        made._redis, made._channels, made._feeds, made._items = redis, channels, feeds, items
        return made

    async def aclose(self) -> None:
        """Cancel background fills; nothing is lost."""
        for part in (self._catch_up, self._seen, self._newest):
            if part is not None:
                await part.aclose()

    async def counts_with_token(
        self, credential: Credential, now: float, *, ordered_for: str | None = None
    ) -> tuple[Grant, ChannelNames, list[bytes]]:
        """All channels in order and their unread counts as digits, with the token's check.

        One round trip. If posts wait for the user's timelines, they are added first; the same applies to pages.
        Apps whose token has the scope `ordered_for` read by the order of arrival, which is kept from the first such
        request on.
        """
        found = await self._channels.counts_with_token(credential, now, ordered=ordered_for is not None)
        if ordered_for in found[0].scopes and found[0].behind:
            await self._keep_order(credential.user, now)
        if await self.has_caught_up(found[0], GLOBAL, now):
            found = await self._channels.counts_with_token(credential, now)
        return found

    async def rows_with_token(
        self, credential: Credential, uid: str, query: PageQuery, now: float
    ) -> tuple[Grant, PageRows]:
        """The rows of a page, for `shown`, with the token's check. One round trip."""
        granted, rows = await self._page(credential, uid, query, now)
        if await self.has_caught_up(granted, uid, now):
            granted, rows = await self._page(credential, uid, query, now)
        return granted, rows

    async def page(self, user: str, uid: str, query: PageQuery, now: float) -> bytes:
        """A page as the bytes of the reply, for a user whose session was checked."""
        return (await self.page_beside(user, uid, query, now, partial(asyncio.sleep, 0)))[0]

    async def page_beside(
        self, user: str, uid: str, query: PageQuery, now: float, beside: Callable[[], Awaitable[T]]
    ) -> tuple[bytes, T]:
        """`page`, and what `beside` reads at the same time: once more if posts were added that waited."""
        rows, found = await asyncio.gather(self.rows(user, uid, query, now), beside())
        if await self.has_caught_up(Grant(user, frozenset(), rows.behind), uid, now):
            rows, found = await asyncio.gather(self.rows(user, uid, query, now), beside())
        return await self.shown(user, uid, query, rows, now), found

    async def rows(self, user: str, uid: str, query: PageQuery, now: float) -> PageRows:
        """The rows of a page, without adding posts that wait."""
        _, rows = await read_page(self._redis, user, uid, query, now, None, self._items)
        self._newest.sort(self._redis, user, rows.unsorted)
        return rows

    async def rows_in(self, user: str, wanted: Mapping[str, Sequence[str]]) -> dict[str, Row]:
        """The rows of items in the channels that list them, by id; see `pages.rows_in`."""
        return await rows_in(self._redis, user, wanted) if wanted else {}

    async def unread_of(self, user: str, uid: str, source: str, now: float, after: Cursor | None = None) -> list[str]:
        """The ids of all unread items of a feed in a channel, newest first; only those after `after`."""
        found: list[str] = []
        query: PageQuery | None = PageQuery(EXAMINED, after=after, view="unread", source=source)
        while query is not None:
            page = await self.rows(user, uid, query, now)
            found += page.ids
            end = page.end()
            query = query._replace(after=end) if page.older and end is not None else None
        return found

    async def unread_ids(self, user: str, uids: Sequence[str]) -> dict[str, list[str]]:
        """The ids of all unread items of each of these channels."""
        return await unread_in(self._redis, user, uids)

    async def states_of(
        self, user: str, uids: Iterable[str], feeds: Sequence[str]
    ) -> dict[str, dict[str, dict[str, float | None]]]:
        """By feed and channel, when each of the feed's items there was read; None for unread ones."""
        return await states_of(self._redis, self._items, user, uids, feeds)

    async def of_feeds(self, ids: Set[str], feeds: Sequence[str]) -> dict[str, list[str]]:
        """Those of the items that are of these feeds, by feed; none of feeds that can't be read now."""
        return await self._items.by_feed(ids, feeds, at_any_cost=True)

    async def shown(self, user: str, uid: str, query: PageQuery, rows: PageRows, now: float) -> bytes:
        """The reply with these rows, for a replacing feed if the source was replaced. No round trip if cached."""
        source = None
        if query.source is not None:
            subscription, current = await self._followed(user, query.source)
            if current != query.source:
                query = query._replace(source=current)
                rows = await self.rows(user, uid, query, now)
            source = await self._source(current, subscription, query, rows)
        # Megabytes of posts delay all other requests to Redis: one page per user at a time.
        async with self._turns.of(user):
            upward = query.before is not None
            ids = rows.ids[::-1] if upward else rows.ids
            data = await self.data(user, ids, rows.own_names, as_fed=query.as_fed)
            rows = rows.ended(len(data), upward=upward)
            return self._splicer.page(rows, data[::-1] if upward else data, newer=upward, source=source)

    async def arrivals_with_token(
        self, credential: Credential, uid: str, query: ArrivalQuery, now: float
    ) -> tuple[Grant, Arrivals]:
        """A piece of the order of arrival of the token's user."""
        user = credential.user
        found = await read_arrivals(self._redis, user, uid, query, now, credential)
        was_kept = not found[0].behind or await self._keep_order(user, now)
        if await self.has_caught_up(found[0], uid, now) or not was_kept:
            found = await read_arrivals(self._redis, user, uid, query, now, credential)
        return found

    async def _keep_order(self, user: str, now: float) -> bool:
        """As `keep_order`. An app's requests that come at once wait for the first, instead of doing its work again."""
        async with self._orders.of(user):
            return await keep_order(self._redis, self._items, user, now)

    async def _page(self, credential: Credential, uid: str, query: PageQuery, now: float) -> tuple[Grant, PageRows]:
        user = credential.user
        scopes, rows = await read_page(self._redis, user, uid, query, now, credential, self._items)
        self._newest.sort(self._redis, user, rows.unsorted)
        return grant(user, scopes, behind=rows.behind), rows

    async def data(
        self, user: str, ids: Sequence[str], own_names: bytes | None = None, *, as_fed: bool = False
    ) -> list[bytes | None]:
        """The JSON of items, for `spliced`; of items that are large together, only the first ones.

        `AWAY` for those whose master of the cluster is away. Feeds have the user's own names; `own_names` is their
        number, if a page has read it. `as_fed` is as in `PageQuery`.
        """
        found = await self._cache.get(ids, within_reach=True)
        if as_fed:
            found = [item.own if isinstance(item, Texts) else item for item in found]
        return await self.own_view.of(user, found, own_names)

    async def text_of(self, user: str, id_: str) -> ShownText:
        """Which text of an item the user sees: `own`, or `full`; empty for an item without a full text."""
        (item,) = await self._cache.get([id_], within_reach=True) or [None]
        if not isinstance(item, Texts):
            return ""
        return "full" if shown_text(item, await self.own_view.texts.choices(user)) is item.full else "own"

    async def post(self, user: str, id_: str, text: ShownText = "") -> bytes | None:
        """The reply with that item alone; None if none of the user's channels shows it.

        With another `text` than the user has chosen for its feed, if it has that.
        """
        found, names = await shown(self._redis, user, GLOBAL, [id_])
        if id_ not in found:
            return None
        rows = PageRows.of([found[id_]], older=False, names=names)
        data = await self.data(user, rows.ids)
        if text and isinstance(both := (await self._cache.get(rows.ids, within_reach=True))[0], Texts):
            data = await self.own_view.of(user, [both.full if text == "full" else both.own])
        return self.spliced(rows, data, b"{}")

    async def last_read(self, user: str) -> bytes:
        """The reply with the posts that were read last, that first; not those marked together or arrived as read."""
        every = [keys.read(user, uid) for uid in await every_channel(self._redis, user)]
        listed, names = list[Row](), dict[str, str]()
        for ids in batches(await last_read(self._redis, every, _LOOKED_AT, _AT_ONCE), 2 * _LAST_READ):
            (found, called), feeds = await asyncio.gather(shown(self._redis, user, GLOBAL, ids), self.feeds_of(ids))
            names |= called
            since = await asyncio.gather(*(self._channels.unread_from(user, uid) for uid in called))
            for row, feed in ((found[one], feed) for one, feed in zip(ids, feeds, strict=True) if one in found):
                first = min((of[feed] for of in since if feed in of), default=0.0)
                listed += [row] if row.is_read and float(row.score) >= first else []
            if len(listed) >= _LAST_READ:
                break
        page = PageRows.of(listed[:_LAST_READ], older=False, names=names)
        return self.spliced(page, await self.data(user, page.ids), b"{}")

    async def also_in(self, user: str, id_: str) -> list[str]:
        """The names of other feeds with the item that the user follows."""
        carrying = {one.feed for item in await self._items.timeline_items([id_]) for one in item.duplicates}
        if not carrying:
            return []
        follows = await self._channels.followed_feeds(user)
        followed = {feed: one for feed, one in follows.items() if feed in carrying}
        records = await self._feeds.within_reach(followed)
        return sorted(feed_name(one, records.get(feed)) for feed, one in followed.items())

    def spliced(self, rows: PageRows, data: Sequence[bytes | None], paging: bytes) -> bytes:
        """The reply with these rows, their `data` and that `paging` object."""
        return self._splicer.joined(rows, data, paging)

    async def wire_items(self, user: str, rows: Sequence[Row], name: str) -> list[bytes | None]:
        """Items of one channel of that name as JSON, None for a missing item; large ones as in `data`."""
        data = await self.own_view.of(user, await self._cache.get([row.id for row in rows]))
        return [
            None if item is None else self._splicer.prefixes(row.channel, name)[row.state][1:] + item
            for row, item in zip(rows, data, strict=False)
        ]

    async def has_caught_up(self, granted: Grant, uid: str, now: float) -> bool:
        """Note the visit; returns whether posts waited for the user's timelines and have now been added."""
        if self._seen is not None:
            self._seen.note(granted.user, now)
        return granted.behind and await self.fill(granted.user, uid, now)

    async def fill(self, user: str, uid: str, now: float) -> bool:
        """Add posts that wait for the user's timelines, without a visit; returns whether all were added."""
        if self._catch_up is None:
            return False
        await self._catch_up.fill(user, uid, now)
        read_again()
        return True

    async def tree(self, user: str) -> list[tuple[Channel, list[SourceCount]]]:
        """All channels in order, each with its feeds and their counts.

        Items of a cluster's master that is away are missing from the counts of feeds, not from those of channels.
        """
        channels = await self._channels.list(user)
        followed = await self._channels.all_subscriptions(user)
        feeds = list(dict.fromkeys(sub.feed for subs in followed.values() for sub in subs))
        records, updated = await self._feeds.within_reach(feeds), await self._items.last_updates(feeds)
        branches = []
        for channel in channels:
            subscriptions = followed.get(channel.uid, [])
            total, unread = (
                await self._by_feed(user, channel.uid) if subscriptions else (Counter[str](), Counter[str]())
            )
            sources = [
                SourceCount(
                    feed=one.feed,
                    url=mask_credentials(one.url),
                    name=feed_name(one, records.get(one.feed)),
                    unread=unread[one.feed],
                    total=total[one.feed],
                    last_update=updated.get(one.feed),
                )
                async for one in in_turns(subscriptions)
            ]
            branches.append((channel, sources))
        return branches

    async def branch(self, user: str, uid: str) -> list[SourceCount]:
        """The feeds of a channel by name, with their unread items. Two round trips.

        With more than `MOST_COUNTED` unread items in the channel, only the newest count.
        """
        subscriptions, ids = await self._channels.subscriptions_and_unread(user, uid, MOST_COUNTED)
        facts = ("title", "photo", ICON, *FAILURE_FIELDS)
        of_items, faces = await asyncio.gather(
            self.feeds_of(ids), self._feeds.descriptions([one.feed for one in subscriptions], facts)
        )
        unread = Counter(of_items)
        found = [
            SourceCount(
                one.feed, url, one.name or title or url, unread[one.feed],
                photo=photo or icon, is_failing=fails(*failure),
            )
            for one, (title, photo, icon, *failure) in zip(subscriptions, faces, strict=True)
            for url in (mask_credentials(one.url),)
        ]  # fmt: skip
        return sorted(found, key=lambda one: by_name(one.name))

    async def _followed(self, user: str, feed_id: str) -> tuple[Subscription | None, str]:
        """A feed that the user follows, or its replacement, and its current id."""
        followed = await self._channels.followed_feeds(user)
        given = {one.id: one.feed for one in followed.values()}
        current = feed_id if feed_id in followed else given.get(feed_id, feed_id)
        for _ in range(_MOST_MERGES):
            if current in followed or (later := await self._channels.current_feed(user, current)) is None:
                break
            current = later
        return followed.get(current), current if current in followed else feed_id

    async def _source(
        self, feed_id: str, subscription: Subscription | None, query: PageQuery, rows: PageRows
    ) -> dict[str, str]:
        """The `source` member of a reply that is limited to one feed.

        Shows nothing of a feed that the user neither follows nor has items of.
        """
        if subscription is None and not rows.ids:
            if query.before or query.after or rows.resume:
                return {"_id": feed_id}  # an empty page while paging through the items of an unfollowed feed
            raise NotFound(f"'source' is unknown: found '{feed_id}', expected the '_source' of one of your items")
        record = (await self._feeds.within_reach([feed_id])).get(feed_id)
        url = mask_credentials(subscription.url if subscription else record.url if record else "")
        return {"_id": feed_id, "name": feed_name(subscription, record), "url": url}

    async def _by_feed(self, user: str, uid: str) -> tuple[Counter[str], Counter[str]]:
        """The numbers of items and of unread items of a channel, by feed."""
        total, unread = Counter[str](), Counter[str]()
        async for rows in walk_rows(self._redis, user, uid):
            feeds = await self.feeds_of([row.id for row in rows])
            total.update(feeds)
            unread.update(feed for feed, row in zip(feeds, rows, strict=True) if not row.is_read)
        return total, unread

    async def by_feed(self, ids: Set[str], expected: Sequence[str]) -> dict[str, list[str]]:
        """The items by feed, '' for none and for items that can't be read now. Most are of the `expected` feeds."""
        found = await self._items.by_feed(ids, expected) if len(ids) > _MANY else {}
        listed = {*chain.from_iterable(found.values())}
        for some in batches([*(ids - listed)] if len(listed) < len(ids) else [], _MANY):
            for item, feed in zip(some, await self.feeds_of(some), strict=True):
                found.setdefault(feed, []).append(item)
        return found

    async def feeds_of(self, ids: Sequence[str]) -> list[str]:
        """The feeds of these items, '' for none and for items that can't be read now.

        They are remembered, because an item's feed never changes.
        """
        known = {item: feed for item in ids if (feed := self._feed_of.get(item)) is not None}
        if missing := [item for item in ids if item not in known]:
            rows = await reached(self._items.fields(missing, ["feed"]))
            found = {
                item: intern(text(row[0] or b""))
                for item, row in zip(missing, rows, strict=True)
                if not isinstance(row, StoreUnavailable)
            }
            self._feed_of.update(found)
            known |= found
        return [known.get(item, "") for item in ids]
