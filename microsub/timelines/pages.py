"""Pages of a timeline: keyset pagination by (score, id), newest first, ties in Redis's order.

A view with an index (all, unread) takes one script call, which also checks the token, if any. The other views (read,
one source) filter its rows and examine at most `EXAMINED` ids per request, so their cost is bounded.

Each web process caches the items' JSON (`ItemCache`), so that a page reads only its ids from Redis.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any, Literal, NamedTuple

from microsub.accounts import absent
from microsub.accounts.store import unauthorized
from microsub.formats.wire import not_ahead
from microsub.model.reader import GLOBAL, SAVED, Credential, Cursor, PageQuery, PageRows, Row, View
from microsub.posts.items import PIECE, Items, within
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis, ScriptCall
from microsub.redis.replies import text, texts
from microsub.redis.scripts import BATCH, batches, load
from microsub.redis.tracking import Tracker
from microsub.timelines.timelinekeys import batch_for, distinct, members_at, set_patterns, split

EXAMINED = 1000
"""Maximum number of ids that one request examines for a view without an index."""
_STEP, _GLOBAL_STEP = 250, 100

_NO_CURSOR = Cursor("0", "")

InFeed = Callable[[str, Sequence[str]], Awaitable[set[str]]]


class TimelineRange(NamedTuple):
    """A piece of a timeline to read: `limit` rows, all or unread, next to a cursor."""

    limit: int
    unread_only: bool = False
    direction: str = ""
    cursor: Cursor | None = None


async def read_page(
    redis: Redis, user: str, uid: str, query: PageQuery, now: float, credential: Credential | None, in_feed: InFeed
) -> tuple[bytes, PageRows]:
    """A page of one channel or of `global`, newest first, and the token's scopes if any.

    One round trip, with the token's check, for the views `all` and `unread`; the others examine at most `EXAMINED`
    ids. `query.source` is a feed id. Raises NotFound and Unauthorized.
    """
    span = _range_of(query)
    if query.view != "read" and query.source is None:
        return await read_range(redis, user, uid, span, now, credential)

    span = span._replace(limit=_GLOBAL_STEP if uid == GLOBAL else _STEP)
    scope, piece = await read_range(redis, user, uid, span, now, credential)
    found = _Found(query, piece, upward=span.direction == "before")
    while await found.take(piece, in_feed):
        span = span._replace(direction=span.direction or "after", cursor=found.last)
        _, piece = await read_range(redis, user, uid, span, now)
    return scope, found.page()


class _Found:
    """The rows found for a view without an index, nearest to the cursor first."""

    def __init__(self, query: PageQuery, piece: PageRows, *, upward: bool) -> None:
        self.last: Cursor | None = None
        self._query = query
        self._upward = upward
        self._older = piece.older
        self._behind = piece.behind
        self._own_names = piece.own_names
        self._rows: list[Row] = []
        self._names: dict[str, str] = {}
        self._examined = 0
        self._more = False

    async def take(self, piece: PageRows, in_feed: InFeed) -> bool:
        """Collect a piece of the timeline; returns whether another piece is needed."""
        self._names.update(piece.names)
        near = piece.rows[::-1] if self._upward else piece.rows
        self._more = bool(near) if self._upward else piece.older
        if not near:
            return False
        self.last = piece.first if self._upward else piece.last
        self._examined += len(near)
        self._rows += await _matching(near, self._query, in_feed)
        return self._more and len(self._rows) <= self._query.limit and self._examined < EXAMINED

    def page(self) -> PageRows:
        """The page: as many rows as requested, newest first, and where to continue."""
        rows = self._rows[: self._query.limit]
        beyond = len(self._rows) > len(rows)
        older = self._older if self._upward else beyond or self._more
        # Also after a full page: ids examined without a match needn't be examined again.
        resume = self.last if self._more and not beyond else None
        found = rows[::-1] if self._upward else rows
        return PageRows.of(found, older, self._names, resume, behind=self._behind, own_names=self._own_names)


async def walk_rows(redis: Redis, user: str, uid: str, *, unread_only: bool = False) -> AsyncIterator[Sequence[Row]]:
    """A whole timeline from the newest item on, in pieces. Raises NotFound."""
    span = TimelineRange(BATCH, unread_only)
    while (page := (await read_range(redis, user, uid, span, 0))[1]).ids:
        yield page.rows
        if not page.older:
            return
        span = TimelineRange(BATCH, unread_only, "after", page.last)


async def read_range(
    redis: Redis, user: str, uid: str, span: TimelineRange, now: float, credential: Credential | None = None
) -> tuple[bytes, PageRows]:
    """The rows next to the range's cursor, and the token's scopes if any; one script call."""
    token = [keys.token(user, credential.digest), keys.behind(user)] if credential else []
    cursor = span.cursor or _NO_CURSOR
    of_user, patterns = _page_keys(user, span.unread_only)
    args: list[Arg] = [span.limit, span.direction, *cursor, now, *patterns, uid]
    reply = await redis.script(load("page"), [*of_user, *token], args)
    state = reply[0]
    if state == b"channel":
        raise await absent(redis, user, uid)
    if state:
        raise unauthorized(text(state))
    return reply[5], _rows(uid, reply)


@lru_cache(maxsize=4096)
def _page_keys(user: str, unread_only: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys and patterns that page.lua takes, the same for all pages of a user."""
    walked = keys.unread if unread_only else keys.posts
    patterns = tuple(keys.pattern(key, user) for key in (keys.channel, walked, keys.unread))
    return (keys.channels(user), keys.user(user), keys.posts(user, SAVED)), patterns


def _range_of(query: PageQuery) -> TimelineRange:
    direction = "before" if query.before else "after" if query.after else ""
    return TimelineRange(query.limit, query.view == "unread", direction, query.before or query.after)


def _rows(uid: str, reply: list[Any]) -> PageRows:
    """The script's reply (page.lua) as rows."""
    _, named, older, stands, states, _, homes, behind, own_names = reply
    listed, places = texts(named), text(stands).split()
    channels = text(homes).split() if uid == GLOBAL else [uid] * len(states)
    names = dict(zip(listed[0::2], listed[1::2], strict=True))
    return PageRows(places[0::2], places[1::2], states, channels, bool(older), names, None, bool(behind), own_names)


async def _matching(rows: Sequence[Row], query: PageQuery, in_feed: InFeed) -> list[Row]:
    wanted: View = query.view
    found = [row for row in rows if wanted != "read" or row.is_read]
    if query.source is None or not found:
        return found
    members = await in_feed(query.source, [row.id for row in found])
    return [row for row in found if row.id in members]


@dataclass(frozen=True, slots=True)
class ShownItems:
    """The shown items among requested ones: by id, a row without its score; and the names of their channels."""

    rows: Mapping[str, Row]
    names: Mapping[str, str]


async def shown(redis: Redis, user: str, uid: str, ids: Sequence[str]) -> ShownItems:
    """The given ids that the channel, or (`global`) any channel, shows. Raises NotFound.

    One round trip; for `global` one for every fifty channels.
    """
    patterns = [keys.pattern(key, user) for key in (keys.channel, keys.posts, keys.unread)]
    of_user = [keys.channels(user), keys.posts(user, SAVED)]
    left = [(0, part) for part in batches(ids, batch_for(uid))] or [(0, ids)]
    rows: dict[str, Row] = {}
    names: dict[str, str] = {}
    while left:
        calls: list[ScriptCall] = [
            (load("timeline_shown"), of_user, [*patterns, uid, visited, *part]) for visited, part in left
        ]
        further = []
        for (_, part), reply in zip(left, await redis.scripts(calls), strict=True):
            if reply[0]:
                raise await absent(redis, user, uid)
            _, named, places, flags, saved, visited = reply
            listed = texts(named)
            names.update(zip(listed[0::2], listed[1::2], strict=True))
            for item, place, flag, kept in zip(part, text(places).split(), flags, saved, strict=True):
                if place != "0" and (item not in rows or (flag == 49 and rows[item].is_read)):
                    rows[item] = Row(item, "", flag == 48, listed[2 * int(place) - 2], kept == 49)
            if visited:
                further.append((visited, part))
        left = further
    return ShownItems(rows, names)


@dataclass(frozen=True, slots=True)
class OwnItems:
    """The ids of all items that a user sees, possibly with repetitions; None if there are too many.

    `behind`: posts wait to be added to timelines of this user.
    """

    ids: Sequence[int] | None
    behind: bool


async def item_ids(redis: Redis, user: str, uid: str, most: int) -> OwnItems:
    """The ids of all items of the channel, or of any channel (`global`), up to `most`. Raises NotFound."""
    patterns = [keys.pattern(key, user) for key in (keys.channel, keys.posts)]
    reply = await redis.script(load("timeline_ids"), [keys.channels(user), keys.behind(user)], [*patterns, uid, most])
    if reply == 0:
        raise await absent(redis, user, uid)
    behind, *ids = reply
    return OwnItems([int(item) for item in ids[0].split()] if ids else None, bool(behind))


# --- the items of a page -------------------------------------------------------------------------------------------

_SHORT = 64 * 1024
"""Bytes of an item's JSON up to which it is read without asking for its size: 100 of them are a little over a page."""

UNTRACKED_LIFE = 2.0
"""Seconds for which a copy is used while changes aren't reported."""

_LARGEST = 1024 * 1024
"""Bytes of the largest item that is cached: a few larger ones would evict those of everybody."""

_OVERHEAD = 150
"""Approximate bytes that an entry takes in addition to its JSON."""


class _CacheRead:
    """A read in progress: items reported as changed since it began aren't cached."""

    __slots__ = ("all_stale", "stale")

    def __init__(self) -> None:
        self.stale: set[str] = set()
        self.all_stale = False


class ItemCache:
    """A cache of at most `max_bytes` of item JSON; the least recently used items are evicted first.

    The JSON lacks its opening brace, because each reply puts its user's members in front: cutting the brace off for
    every page would copy the page again. Redis reports changes (`redis.tracking`), and a report drops the copy.
    Without reports, because their connection is broken or there is none, everything is dropped every few seconds.
    Listens to `tracker` from the first `get` until `aclose`. Missing items aren't remembered. Belongs to one event
    loop.
    """

    def __init__(
        self,
        items: Items,
        tracker: Tracker | None,
        max_bytes: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`clock` counts seconds; `now` is Unix time: no item is later."""
        self._now = now
        self._items = items
        self._tracker = tracker
        self._max_bytes = max_bytes
        self._clock = clock
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._reads: set[_CacheRead] = set()
        self._flush_at: float | None = 0.0
        self._listening = False

    async def get(self, ids: Sequence[str], *, within_reach: bool = False) -> list[bytes | None]:
        """The wire JSON of these items without its opening brace, None if an item no longer exists.

        Of items that are large together, only the first ones, up to `PIECE`. At most one round trip, none if all are
        cached, and another one for large items. `within_reach`: `AWAY` for items that can't be read now because their
        master is away, instead of StoreUnavailable.
        """
        if self._flush_at is not None:
            self._flush_when_due(self._flush_at)
        found: list[bytes | int | None] = list(map(self._kept.get, ids))
        missing = [] if all(found) else [item_id for item_id, data in zip(ids, found, strict=True) if data is None]
        for item_id in ids if not missing else set(ids).difference(missing):
            self._kept.move_to_end(item_id)
        if missing:
            read = dict(zip(missing, await self._read(missing, _SHORT, within_reach), strict=True))
            found = [read[item_id] if data is None else data for item_id, data in zip(ids, found, strict=True)]
        count = within((data if isinstance(data, int) else len(data or b"") for data in found), PIECE)
        large = [item_id for item_id, data in zip(ids[:count], found, strict=False) if isinstance(data, int)]
        whole = dict(zip(large, await self._read(large, sys.maxsize, within_reach), strict=True)) if large else {}
        shown = zip(ids[:count], found, strict=False)
        read_whole = (whole.get(item_id) if isinstance(data, int) else data for item_id, data in shown)
        return [data if isinstance(data, bytes) else None for data in read_whole]

    async def aclose(self) -> None:
        """Stop listening and forget everything."""
        if self._tracker is not None:
            await self._tracker.aclose()
        self._flush()

    # --- reports of the tracker (`tracking.Listener`) --------------------------------------------------------------

    def tracked(self) -> None:
        """Changes are reported from now on; copies made before may be out of date."""
        self._flush()
        self._flush_at = None

    def untracked(self) -> None:
        """Changes are no longer reported."""
        self._flush()
        self._flush_at = self._clock() + UNTRACKED_LIFE

    def changed(self, names: list[str] | None) -> None:
        """Drop the copies of these keys; None: drop all."""
        if names is None:
            self._flush()
            return
        for name in names:
            item_id = name.removeprefix(keys.ITEM_PREFIX)
            dropped = self._kept.pop(item_id, None)
            if dropped is not None:
                self._bytes -= len(dropped) + _OVERHEAD
            for read in self._reads:
                read.stale.add(item_id)

    # --- implementation --------------------------------------------------------------------------------------------

    async def _read(self, missing: Sequence[str], most: int, within_reach: bool) -> list[bytes | int | None]:
        """These items from the store; the sizes of those with more than `most` bytes."""
        read = _CacheRead()
        self._reads.add(read)
        try:
            found = await self._items.data_up_to(missing, most, within_reach=within_reach)
            now = self._now()
            values = [not_ahead(data, now)[1:] if isinstance(data, bytes) else data for data in found]
        finally:
            self._reads.discard(read)
        if not read.all_stale:
            for item_id, data in zip(missing, values, strict=True):
                if isinstance(data, bytes) and data and item_id not in read.stale and len(data) <= _LARGEST:
                    self._keep(item_id, data)
        return values

    def _keep(self, item_id: str, data: bytes) -> None:
        before = self._kept.pop(item_id, None)
        if before is not None:
            self._bytes -= len(before) + _OVERHEAD
        self._kept[item_id] = data
        self._bytes += len(data) + _OVERHEAD
        while self._bytes > self._max_bytes and self._kept:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest) + _OVERHEAD

    def _flush_when_due(self, flush_at: float) -> None:
        if self._tracker is not None and not self._listening:
            self._listening = True
            self._tracker.start(self)
        now = self._clock()
        if now >= flush_at:
            self._flush()
            self._flush_at = now + UNTRACKED_LIFE

    def _flush(self) -> None:
        self._kept.clear()
        self._bytes = 0
        for read in self._reads:
            read.all_stale = True


# --- read state -------------------------------------------------------------------------------------------------------


_AT_ONCE = 8
"""Channels that are marked in one round trip; more would delay others by more than a few milliseconds."""

ScoresOf = Callable[[Sequence[str]], Awaitable[list[str | None]]]
"""Scores of items as text, None if an item doesn't exist any more (`posts.items.Items.scores`)."""


async def mark(
    redis: Redis, user: str, uid: str, ids: Sequence[str], state: Literal["read", "unread"], now: float
) -> set[str]:
    """Mark items as read or unread in one channel or (`global`) in all; returns the ids that changed.

    Unknown ids are ignored; an empty list still checks that the channel exists. Raises NotFound.
    """
    changed: set[str] = set()
    left = distinct(ids)
    while True:
        reply = await redis.script(*_marking(user, uid, state, now, *left[: batch_for(uid)]))
        if reply == -1:
            raise await absent(redis, user, uid)
        changed.update(split(reply[0]))
        left = left[reply[1] :]
        if not left:
            return changed


async def mark_before(redis: Redis, user: str, uid: str, item: str, scores_of: ScoresOf, now: float) -> set[str]:
    """Mark an item and all older ones as read, as `mark_until` does; returns the ids that changed in any channel."""
    return set[str]().union(*(await mark_until(redis, user, uid, item, scores_of, now)).values())


async def mark_until(
    redis: Redis, user: str, uid: str, item: str, scores_of: ScoresOf, now: float
) -> dict[str, set[str]]:
    """Mark an item and all older ones as read, in the channel or (`global`) in all of them.

    Returns the ids that changed, by channel. One round trip for a channel that contains the item.

    `scores_of` looks up the score of an item that has left the timeline; an id that was never in it changes nothing.
    Muted items aren't marked, because the user hasn't seen them. Saved items are marked only in `saved` itself.
    Raises NotFound.
    """
    if uid != GLOBAL:
        changed, has_left = await _mark_until(redis, user, uid, now, item)
        score = (await scores_of([item]))[0] if has_left else None
        return {uid: changed if score is None else (await _mark_until(redis, user, uid, now, item, score))[0]}
    uids = await channels_named(redis, user, uid)
    sets = (keys.posts, keys.hidden, keys.gone)
    stands = await redis.pipeline([("ZSCORE", key(user, one), item) for key in sets for one in uids])
    found = next((text(one) for one in stands[: 2 * len(uids)] if one is not None), None)
    if found is None and any(stands):
        (found,) = await scores_of([item])
    return await _mark_everywhere(redis, user, uids, now, item, found) if found is not None else {}


async def mark_all(redis: Redis, user: str, uid: str, now: float) -> set[str]:
    """Mark all items of the channel or `global` as read, except saved ones from elsewhere; returns the changed ids.

    Raises NotFound.
    """
    if uid != GLOBAL:
        return (await _mark_until(redis, user, uid, now))[0]
    everywhere = await _mark_everywhere(redis, user, await channels_named(redis, user, uid), now)
    return set[str]().union(*everywhere.values())


async def channels_named(redis: Redis, user: str, uid: str) -> list[str]:
    """The channel itself, or for `global` all channels of the user. Raises NotFound."""
    uids = texts(await redis.command("ZRANGE", keys.channels(user), 0, -1))
    named = uids if uid == GLOBAL else [uid] if uid in uids else []
    if not named:
        raise await absent(redis, user, uid)
    return named


async def shown_among(redis: Redis, user: str, uid: str, ids: Sequence[str]) -> list[str]:
    """The given ids that the channel, or any channel (`global`), shows. Raises NotFound."""
    named = await channels_named(redis, user, uid)
    there = await members_at(redis, [keys.posts(user, one) for one in named], ids)
    return [one for one in ids if one in there]


async def mark_again(redis: Redis, user: str, ids: Mapping[str, Sequence[str]], now: float) -> int:
    """Mark items as unread again, by channel; returns their number. Skips items and channels that have left."""
    parts = [(uid, part) for uid, listed in ids.items() for part in batches(listed)]
    changed = 0
    for some in batches(parts, _AT_ONCE):
        replies = await redis.scripts([_marking(user, uid, "unread", now, *part) for uid, part in some])
        changed += sum(len(split(reply[0])) for reply in replies if reply != -1)
    return changed


async def _mark_everywhere(
    redis: Redis, user: str, uids: Sequence[str], now: float, item: str = "", score: str = ""
) -> dict[str, set[str]]:
    """Mark that item and all older ones as read; saved items are left alone."""
    unread = await redis.pipeline([("ZCARD", keys.unread(user, uid)) for uid in uids])
    left = [uid for uid in compress(uids, unread) if uid != SAVED]
    changed: dict[str, set[str]] = {uid: set() for uid in left}
    while left:
        some, left = left[:_AT_ONCE], left[_AT_ONCE:]
        replies = await redis.scripts([_marking(user, uid, "until", now, item, score) for uid in some])
        for uid, reply in zip(some, replies, strict=True):
            if reply == -1:  # the channel has been removed
                continue
            changed[uid].update(split(reply[0]))
            if reply[1] == BATCH:
                left.append(uid)
    return changed


async def _mark_until(
    redis: Redis, user: str, uid: str, now: float, item: str = "", score: str = ""
) -> tuple[set[str], bool]:
    """Mark the unread items of one channel as read, from that place on; returns the ids that changed.

    The second value is True if the item has left the channel; without its `score` nothing was marked. Raises NotFound.
    """
    changed: set[str] = set()
    looked_at, has_left = BATCH, 0
    while looked_at == BATCH:
        reply = await redis.script(*_marking(user, uid, "until", now, item, score))
        if reply == -1:
            raise await absent(redis, user, uid)
        ids, looked_at, has_left = reply
        changed.update(split(ids))
    return changed, has_left == 1


def _marking(user: str, uid: str, how: str, now: float, *rest: str) -> ScriptCall:
    """A call of lua/timeline_mark.lua."""
    script_keys = [keys.channels(user), keys.live_events(user)]
    return load("timeline_mark"), script_keys, [*set_patterns(user), uid, how, now, *rest]
