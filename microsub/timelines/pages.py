"""Pages of a timeline: keyset pagination by (score, id), newest first, ties in Redis's order.

A view with an index (all, unread) takes one script call, which also checks the token, if any. The other views (read,
one source) filter its rows and examine at most `EXAMINED` ids per request, so their cost is bounded. If the source has
no more posts than that, and the user not too many channels, they are looked up instead: those of a quiet feed are
behind any number of others.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from functools import lru_cache
from typing import Any, NamedTuple

from microsub.accounts import absent, unauthorized
from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import StoreError
from microsub.base.tasks import cancel_all
from microsub.model.reader import GLOBAL, SAVED, Credential, Cursor, PageQuery, PageRows, Row, View
from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Redis, ScriptCall
from microsub.redis.readings import reading_times
from microsub.redis.replies import text, texts
from microsub.redis.scan import members, members_at
from microsub.redis.scripts import BATCH, batches, load
from microsub.timelines.channels.follows import every_channel
from microsub.timelines.timelinekeys import ID_BATCH

EXAMINED = 1000
"""Maximum number of ids that one request examines for a view without an index."""
_STEP, _GLOBAL_STEP = 250, 100
_MOST_LOOKED_UP = 50_000
"""Maximum number of look-ups of a source's posts in all channels: to examine ids takes as long."""

NEWEST, _NEWEST_OF_ALL, _FEWEST = 110, 550, 24
"""Unread items of a channel that are kept in their order: five pages, and some that may still come; of all channels of
a page together; and of each at least."""
_MOST_SORTED = 100
"""Channels that are brought into order after one page."""
_PAUSE, _MOST_NOTED = 30.0, 10_000
"""Seconds until a channel is brought into order again, and the most channels for which a process notes the time."""

_EXPORTED = 500
"""Items that are read at once for an export."""

_NO_CURSOR = Cursor("0", "")


class TimelineRange(NamedTuple):
    """A piece of a timeline to read: `limit` rows, all or unread, next to a cursor."""

    limit: int
    unread_only: bool = False
    direction: str = ""
    cursor: Cursor | None = None


async def read_page(
    redis: Redis, user: str, uid: str, query: PageQuery, now: float, credential: Credential | None, items: Items
) -> tuple[bytes, PageRows]:
    """A page of one channel or of `global`, newest first, and the token's scopes if any.

    One round trip, with the token's check, for the views `all` and `unread`; the others examine at most `EXAMINED`
    ids, and those of the source. `query.source` is a feed id. Raises NotFound and Unauthorized.
    """
    span = _range_of(query)
    if query.view != "read" and query.source is None:
        return await read_range(redis, user, uid, span, now, credential)

    span = span._replace(limit=_GLOBAL_STEP if uid == GLOBAL else _STEP)
    scope, piece = await read_range(redis, user, uid, span, now, credential)
    found = _Found(query, piece, upward=span.direction == "before")
    more = await found.take(piece, items)
    if more and query.source is not None:
        uids, ids = await asyncio.gather(channels_named(redis, user, uid), items.newest(query.source, EXAMINED + 1))
        if len(ids) <= EXAMINED and len(ids) * len(uids) <= _MOST_LOOKED_UP:
            return scope, await _among(redis, user, uid, query, ids, piece)
    while more:
        span = span._replace(direction=span.direction or "after", cursor=found.last)
        _, piece = await read_range(redis, user, uid, span, now)
        more = await found.take(piece, items)
    return scope, found.page()


async def _among(redis: Redis, user: str, uid: str, query: PageQuery, ids: Sequence[str], piece: PageRows) -> PageRows:
    """The page with those of the given items that the view shows; `piece` is any of the timeline at this moment."""
    rows, names = await shown(redis, user, uid, ids, in_all=True)
    wanted = [row for row in rows.values() if query.view in ("all", "read" if row.is_read else "unread")]
    listed = sorted(((float(row.score), row.id, row) for row in wanted), reverse=True)
    place = query.before or query.after
    edge = (float(place.score), place.item) if place is not None else (math.inf, "")
    if query.before is not None:
        newer = [one for one in listed if one[:2] > edge]
        found, older = newer[-query.limit :], len(newer) < len(listed)
    else:
        rest = [one for one in listed if one[:2] < edge]
        found, older = rest[: query.limit], len(rest) > query.limit
    rows_found = [row for *_, row in found]
    return PageRows.of(rows_found, older, names, behind=piece.behind, own_names=piece.own_names)


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

    async def take(self, piece: PageRows, items: Items) -> bool:
        """Collect a piece of the timeline; returns whether another piece is needed."""
        self._names.update(piece.names)
        near = piece.rows[::-1] if self._upward else piece.rows
        end = piece.end(upward=self._upward)
        self._more = end is not None if self._upward else piece.older
        if end is None:
            return False
        self.last = end
        self._examined += EXAMINED if piece.resume else len(near)
        self._rows += await _matching(near, self._query, items)
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
    while (end := (page := (await read_range(redis, user, uid, span, 0))[1]).end()) is not None:
        yield page.rows
        if not page.older:
            return
        span = TimelineRange(BATCH, unread_only, "after", end)


async def read_range(
    redis: Redis, user: str, uid: str, span: TimelineRange, now: float, credential: Credential | None = None
) -> tuple[bytes, PageRows]:
    """The rows next to the range's cursor, and the token's scopes if any; one script call."""
    place = {"limit": span.limit, "direction": span.direction, "cursor": span.cursor or _NO_CURSOR}
    token = {"token": keys.token(user, credential.digest)} if credential else {}
    reply = await redis.script(load("page")(**_page_keys(user, span.unread_only), **token, **place, now=now, uid=uid))
    state = reply[0]
    if state == b"channel":
        raise await absent(redis, user, uid)
    if state:
        raise unauthorized(text(state))
    return reply[5], _rows(uid, reply)


@lru_cache(maxsize=4096)
def _page_keys(user: str, unread_only: bool) -> Mapping[str, Any]:
    """What page.lua takes, the same for all pages of a user."""
    return {
        **{"channels": keys.channels(user), "user": keys.user(user), "saved": keys.posts(user, SAVED)},
        **{"behind": keys.behind(user)},
        "patterns": tuple(keys.pattern(key, user) for key in (keys.channel, keys.posts, keys.unread, keys.apart)),
        "view": "unread" if unread_only else "",
    }


def sorting(user: str, uids: Sequence[str]) -> list[ScriptCall]:
    """The calls that keep the newest unread items of these channels in their order, for later pages."""
    most = _share(len(uids))
    return [load("unread_newest")(user, uid, most=most) for uid in uids[:_MOST_SORTED]]


def _share(channels: int) -> int:
    """The number of unread items that each channel keeps in order, if there is this number of channels."""
    return max(_FEWEST, min(NEWEST, _NEWEST_OF_ALL // max(1, channels)))


class NewestUnread:
    """Brings the newest unread items of channels into their order after a page, so that later pages need less time.

    Belongs to one event loop. Pages show the same without it.
    """

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}
        self._done: BoundedCache[tuple[str, str], tuple[float, int]] = BoundedCache(_MOST_NOTED)

    def sort(self, redis: Redis, user: str, uids: Sequence[str]) -> None:
        """Begin with these channels of a user in the background, unless others of that user are being sorted.

        A channel that was sorted just now with as many items is left out: deep pages lie beyond those in any case.
        """
        if not uids or user in self._running:
            return
        now, most = time.monotonic(), _share(len(uids))
        due = []
        for uid in uids:
            at, number = self._done.get((user, uid), (-_PAUSE, 0))
            if now - at >= _PAUSE or number < most:
                due.append(uid)
        if due:
            # Without the context of the request, which remembers its questions to Redis (`redis.foresight`).
            task = asyncio.get_running_loop().create_task(self._sorted(redis, user, due), context=Context())
            self._running[user] = task
            task.add_done_callback(lambda _: self._running.pop(user, None))

    async def _sorted(self, redis: Redis, user: str, uids: Sequence[str]) -> None:
        with suppress(StoreError):  # a later page tries again
            await redis.scripts(sorting(user, uids))
            done = time.monotonic(), _share(len(uids))
            self._done.update({(user, uid): done for uid in uids[:_MOST_SORTED]})

    async def aclose(self) -> None:
        """Cancel what is in progress; nothing is lost."""
        await cancel_all(self._running.values())


def _range_of(query: PageQuery) -> TimelineRange:
    direction = "before" if query.before else "after" if query.after else ""
    return TimelineRange(query.limit, query.view == "unread", direction, query.before or query.after)


def _rows(uid: str, reply: list[Any]) -> PageRows:
    """The script's reply (page.lua) as rows."""
    _, named, older, stands, states, _, homes, behind, own_names, place, unsorted = reply
    listed, places = texts(named), text(stands).split()
    channels = text(homes).split() if uid == GLOBAL else [uid] * len(states)
    names = dict(zip(listed[0::2], listed[1::2], strict=True))
    resume = Cursor(*text(place).split()) if place else None
    columns = (places[0::2], places[1::2], states, channels)
    return PageRows(*columns, bool(older), names, resume, bool(behind), own_names, text(unsorted).split())


async def _matching(rows: Sequence[Row], query: PageQuery, items: Items) -> list[Row]:
    wanted: View = query.view
    found = [row for row in rows if wanted != "read" or row.is_read]
    if query.source is None or not found:
        return found
    members = await items.in_feed(query.source, [row.id for row in found])
    return [row for row in found if row.id in members]


async def rows_in(redis: Redis, user: str, wanted: Mapping[str, Sequence[str]]) -> dict[str, Row]:
    """The rows of the given ids by channel: of those that the channel shows. One round trip.

    A channel that is gone shows none.
    """
    of_user = _shown_keys(user)
    calls = [load("timeline_shown")(**of_user, uid=uid, apart="", visited=0, ids=ids) for uid, ids in wanted.items()]
    replies = zip(wanted.values(), await redis.scripts(calls), strict=True)
    return {row.id: row for ids, reply in replies if not reply[0] for row in _rows_shown(ids, reply)[0]}


def _rows_shown(ids: Sequence[str], reply: list[Any]) -> tuple[list[Row], dict[str, str]]:
    """A good reply of timeline_shown.lua as rows, of the ids that are shown, and the names of their channels."""
    _, named, places, flags, saved, scores, _ = reply
    listed = texts(named)
    states = zip(ids, text(scores).split(), text(places).split(), flags, saved, strict=True)
    rows = [
        Row(item, score, flag == 48, listed[2 * int(place) - 2], kept == 49)
        for item, score, place, flag, kept in states
        if place != "0"
    ]
    return rows, dict(zip(listed[0::2], listed[1::2], strict=True))


def _shown_keys(user: str) -> dict[str, Any]:
    """What timeline_shown.lua takes, the same for all channels of a user."""
    patterns = [keys.pattern(key, user) for key in (keys.channel, keys.posts, keys.unread)]
    return {"channels": keys.channels(user), "saved": keys.posts(user, SAVED), "patterns": patterns}


async def shown(
    redis: Redis, user: str, uid: str, ids: Sequence[str], *, in_all: bool = False
) -> tuple[dict[str, Row], dict[str, str]]:
    """Those of the given ids that the channel, or (`global`) any channel, shows. Raises NotFound.

    With `in_all`, `global` doesn't show items of feeds that the user hides in *All*. Returns a row for each id, and the
    names of the channels. One round trip; for `global` one for every fifty channels.
    """
    of_user = _shown_keys(user)
    apart = keys.pattern(keys.apart, user) if in_all and uid == GLOBAL else ""
    left = [(0, part) for part in batches(ids, ID_BATCH)] or [(0, ids)]
    rows: dict[str, Row] = {}
    names: dict[str, str] = {}
    while left:
        calls = [
            load("timeline_shown")(**of_user, uid=uid, apart=apart, visited=visited, ids=part) for visited, part in left
        ]
        further = []
        for (_, part), reply in zip(left, await redis.scripts(calls), strict=True):
            if reply[0]:
                raise await absent(redis, user, uid)
            some, called = _rows_shown(part, reply)
            names.update(called)
            rows.update({row.id: row for row in some if row.id not in rows or rows[row.id].is_read > row.is_read})
            if reply[-1]:
                further.append((reply[-1], part))
        left = further
    return rows, names


async def item_ids(redis: Redis, user: str, uid: str, most: int) -> tuple[Sequence[int] | None, bool]:
    """The ids of all items of the channel, or of any channel (`global`), possibly with repetitions; None beyond `most`.

    Also whether posts wait to be added to timelines of this user. Raises NotFound.
    """
    patterns = [keys.pattern(key, user) for key in (keys.channel, keys.posts)]
    reply = await redis.script(load("timeline_ids")(user, patterns=patterns, uid=uid, most=most))
    if reply == 0:
        raise await absent(redis, user, uid)
    behind, *ids = reply
    return [int(item) for item in ids[0].split()] if ids else None, bool(behind)


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


# --- whole timelines, for an export ----------------------------------------------------------------------------------


async def states(redis: Redis, user: str, uid: str) -> AsyncIterator[list[tuple[str, float | None]]]:
    """All items of a channel in batches, the oldest first, then the muted ones; each once, with the time of reading."""
    for key, read in (
        (keys.posts(user, uid), keys.read(user, uid)),
        (keys.hidden(user, uid), keys.hidden_read(user, uid)),
    ):
        (times,) = await reading_times(redis, [read])
        async for batch in _ascending(redis, key):
            yield [(item, times.get(item)) for item, _ in batch]


async def references(redis: Redis, user: str) -> AsyncIterator[list[str]]:
    """Ids that the user's channels, removed ones included, show or hide; in batches, possibly with repetitions."""
    for uid in await every_channel(redis, user):
        for key in (keys.posts(user, uid), keys.hidden(user, uid)):
            async for ids in members(redis, key):
                yield ids


async def _ascending(redis: Redis, key: str) -> AsyncIterator[list[tuple[str, str]]]:
    """A sorted set in ascending order, each member once, even if it changes meanwhile."""
    lowest, seen = "-inf", set[str]()
    while True:
        found = await redis.command(
            "ZRANGE", key, lowest, "+inf", "BYSCORE", "LIMIT", 0, _EXPORTED + len(seen), "WITHSCORES"
        )
        pairs = [(text(item), text(score)) for item, score in zip(found[0::2], found[1::2], strict=True)]
        batch = [pair for pair in pairs if pair[0] not in seen]
        if not batch:
            return
        yield batch
        last = batch[-1][1]
        seen = {item for item, score in pairs if score == last}
        lowest = last
