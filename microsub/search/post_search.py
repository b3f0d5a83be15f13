"""Search in a user's posts: matches of the index, newest first, filtered by the user's timelines.

All users share the index. A match is shown only if the user's own timeline shows it at that moment, so posts that only
others follow, or that were removed or muted, aren't found. A search that takes too long stops early, and its page has a
cursor to continue.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import orjson

from microsub.base.errors import InvalidRequest, SearchUnavailable, StoreError, TooManyRequests
from microsub.base.locks import KeyedLocks
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter
from microsub.feeds import Events, FeedRecord, Feeds
from microsub.model.query import PostQuery, parsed
from microsub.model.reader import Grant, PageRows, PostSearchRequest, Row, Subscription
from microsub.model.words import Phrase, words_of
from microsub.posts import without_item
from microsub.redis.protocol import Redis
from microsub.redis.scripts import BATCH, batches
from microsub.search.index import Match, QueryTooSlow, row_at
from microsub.search.replica import IndexReader
from microsub.search.words import expression
from microsub.timelines import Channels, ReaderViews, item_ids, shown
from microsub.web.params import wrong

SEARCHES_OF_USER = RateLimit("searches of posts", "user", 120)
SEARCHES_AT_ONCE = RateLimit("searches of posts", "user", 4, AT_ONCE)
"""A search field that sends each letter makes a few requests a second; nobody reads that many results."""

DEPTHS = (200, 1000)
"""Matches in the first round trip, and in each later one: mostly the first are enough."""

OWN_DEPTHS = (2000, 20_000)
"""The same for users with few items: SQLite gets their ids, and returns no others."""

MOST_OWN = 5000
"""The maximum number of items of such a user."""

WALK_SECONDS = 0.3
"""Time limit of one search; the page may then be shorter than requested."""

AGAIN = 10
"""Times as long may take to rank again, for a later page, the posts for which the first one had that time."""

MOST_NEWEST = 100
"""Items per request."""

MOST_COUNTED = 1000
"""Matches that are counted, if the request asks for that."""

MOST_RANKED = 3000
"""The newest matches in the user's timelines that are ranked."""

LATE = 60
"""Seconds by which the index may be behind without a word."""

BEHIND_SECONDS = 5.0
"""How long the answer is remembered."""

MOST_FEEDS = 500
"""Feeds that one `feed:` may match: a query that matches more is refused."""

_PLACE = re.compile(r"n(-?[0-9]{1,18})", re.ASCII)
_RANK = re.compile(r"r(-?[0-9]{1,18})-([0-9]{1,4})(?:-(-?[0-9]{1,18}))?", re.ASCII)
"""The row of the newest ranked post, the number of those before the page, and the last row of a walk that was cut."""


@dataclass(slots=True)
class _Collected:
    """The matches so far, nearest to the cursor first; `last` is the last row that was checked."""

    found: list[tuple[Match, Row]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    last: int | None = None
    broken_off: bool = False
    """More may follow after `last`."""

    def take(
        self, matches: Sequence[Match], rows: Mapping[str, Row], names: Mapping[str, str], query: PostQuery
    ) -> None:
        """Add the matches that the user can see, in the state that the query wants."""
        self.names.update(names)
        for match in matches:
            row = rows.get(str(match.item))
            if row is not None and _is_wanted(row, query):
                self.found.append((match, row))


class PostSearch:
    """Searches for users. Belongs to one event loop."""

    def __init__(
        self,
        redis: Redis,
        channels: Channels,
        feeds: Feeds,
        reading: ReaderViews,
        index: IndexReader,
        *,
        visits: bool = True,
    ) -> None:
        """`visits`: a search counts as a visit of the user."""
        self._visits = visits
        self._redis = redis
        self._channels = channels
        self._feeds = feeds
        self._reading = reading
        self._index = index
        self._events = Events(redis)
        self._behind = -math.inf, 0.0
        self._limiter = RateLimiter()
        self._turns = KeyedLocks()

    async def page(self, user: str, uid: str, request: PostSearchRequest, now: float) -> bytes:
        """The reply, with items as in a timeline. `uid` may be `global`.

        A counted one has `_found`: `count`, and `more` if that is only the minimum.

        Raises InvalidRequest for an invalid query or cursor, NotFound, TooManyRequests and SearchUnavailable.
        """
        query = parsed(request.text, now)
        with self._place_of(user):
            found = expression(query, await self._feeds_named(user, query.feeds))
            search = self._best if request.order == "relevance" else self._newest
            reply = await search(user, uid, query, found, request, now)
        behind = await self.behind(now)
        return b'%b,"_behind":%d}' % (reply.removesuffix(b"}"), behind) if behind else reply

    async def behind(self, now: float) -> int:
        """The age in seconds of the oldest post or change that this machine's index lacks; 0 below a minute.

        Looks again after some seconds.
        """
        looked_at, behind = self._behind
        if not 0 <= now - looked_at < BEHIND_SECONDS:
            with suppress(StoreError, SearchUnavailable):
                behind = await self._index.behind(self._events, now)
            self._behind = now, behind
        return int(behind) if behind >= LATE else 0

    async def is_unusable(self, now: float) -> bool:
        """Whether this machine has no index of posts that can be read. Raises StoreError."""
        try:
            await self._index.behind(self._events, now)
        except SearchUnavailable:
            return True
        return False

    async def newest(self, user: str, uid: str, text: str, now: float) -> list[str]:
        """Ids of the newest items that match, at most a hundred. Raises as `page` does."""
        query = parsed(text, now)
        with self._place_of(user):
            found = expression(query, await self._feeds_named(user, query.feeds))
            collected = await self._collect(user, uid, query, found, MOST_NEWEST, now)
            return [row.id for _, row in collected.found[:MOST_NEWEST]]

    async def matching(
        self, user: str, uid: str, text: str, ids: Sequence[str], now: float
    ) -> tuple[Sequence[str], bool]:
        """The ids that match and that the user can see, and whether the index has all of the stored ones.

        Raises as `page` does.
        """
        with self._place_of(user):
            query = parsed(text, now)
            found = expression(query, await self._feeds_named(user, query.feeds))
            async with self._turn_of(user):
                matches, missing = await self._index.matching(found, [*map(int, ids)], *_rows(query))
            collected = _Collected()
            for part in batches(matches, DEPTHS[0]):
                collected.take(part, *await self._shown(user, uid, part), query)
            gone = await without_item(self._redis, [*map(str, missing)])
            return [row.id for _, row in collected.found], len(gone) == len(missing)

    @contextmanager
    def _place_of(self, user: str) -> Iterator[None]:
        """Count a search of the user for the block. Raises TooManyRequests, and InvalidRequest if it takes too long."""
        refusal = TooManyRequests("too many searches: try again in a few seconds", 10)
        with self._limiter.holding((SEARCHES_AT_ONCE, user), refusal=refusal):
            if not self._limiter.count(SEARCHES_OF_USER, user):
                raise refusal
            try:
                yield
            except QueryTooSlow:
                raise InvalidRequest(
                    "'query' can't be used: too many posts match its words, expected more or longer ones"
                ) from None

    def _turn_of(self, user: str) -> asyncio.Semaphore:
        """Held during each query to SQLite, so that a user's slow queries take one thread at most."""
        return self._turns.of(user)

    async def _newest(
        self, user: str, uid: str, query: PostQuery, found: str, request: PostSearchRequest, now: float
    ) -> bytes:
        upward = request.before is not None
        at = _place(request.before, "before") if upward else _place(request.after, "after")
        above, below = (at, None) if upward else (None, at)
        enough = max(request.limit, MOST_COUNTED if request.counted else 0) + 1
        collected = await self._collect(user, uid, query, found, enough, now, above, below, upward=upward)
        data = await self._reading.data(user, [row.id for _, row in collected.found[: request.limit]])
        page = collected.found[: len(data)]
        beyond = len(collected.found) > len(page)
        resume = collected.last if collected.broken_off and not beyond else None
        if upward:
            page.reverse()
            data.reverse()
        before = after = None
        if page:
            before = page[0][0].row
            if upward or beyond:
                after = page[-1][0].row
        if resume is not None:
            before, after = (resume, after) if upward else (before, resume)
        cursors = {"before": before, "after": after}
        paging = {name: f"n{row}" for name, row in cursors.items() if row is not None}
        return self._reply(collected, page, data, paging, counted=request.counted)

    async def _best(
        self, user: str, uid: str, query: PostQuery, found: str, request: PostSearchRequest, now: float
    ) -> bytes:
        if request.before is not None:
            raise wrong("before", request.before, "only 'after' if the best matches are requested")
        top, first, end = _rank(request.after)
        above, below = None if end is None else end - 1, None if top is None else top + 1
        began = time.monotonic()
        collected = await self._collect(user, uid, query, found, MOST_RANKED, now, above, below, ranked=True)
        if end is not None:  # as many searches as could take that time
            self._limiter.count(SEARCHES_OF_USER, user, int((time.monotonic() - began) / WALK_SECONDS))
        if collected.last is not None and len(collected.found) < MOST_RANKED:
            if end is not None:  # what was ranked would come again, or not at all
                raise TooManyRequests("too many searches: try again in a few seconds", 10)
            end = collected.last  # the walk took too long: later pages rank the same posts, and then older ones
        collected.broken_off |= end is not None
        top = collected.found[0][0].row if collected.found else None
        collected.found.sort(key=lambda one: (one[0].rank, -one[0].row))
        data = await self._reading.data(user, [row.id for _, row in collected.found[first : first + request.limit]])
        page = collected.found[first : first + len(data)]
        last = first + len(page)
        paging = {} if end is None else {"after": f"r{end - 1}-0"}
        if last < len(collected.found):
            paging = {"after": f"r{top}-{last}" + ("" if end is None else f"-{end}")}
        return self._reply(collected, page, data, paging, counted=request.counted)

    def _reply(
        self,
        collected: _Collected,
        page: Sequence[tuple[Match, Row]],
        data: Sequence[bytes | None],
        paging: dict[str, str],
        *,
        counted: bool,
    ) -> bytes:
        rows = PageRows.of([row for _, row in page], older=False, names=collected.names)
        reply = self._reading.spliced(rows, data, orjson.dumps(paging))
        if not counted:
            return reply
        number = len(collected.found)
        more = collected.broken_off or number > MOST_COUNTED
        told = orjson.dumps({"count": min(number, MOST_COUNTED), "more": more})
        return b'%b,"_found":%b}' % (reply.removesuffix(b"}"), told)

    async def _collect(
        self, user: str, uid: str, query: PostQuery, found: str, enough: int, now: float,
        above: int | None = None, below: int | None = None, *, upward: bool = False, ranked: bool = False,
    ) -> _Collected:  # fmt: skip
        collected = _Collected()
        deadline = time.monotonic() + WALK_SECONDS * (AGAIN if ranked and above is not None else 1)
        own = await self._own(user, uid, now)
        first, then = DEPTHS if own is None else OWN_DEPTHS
        above, below = _rows(query, above, below)
        for depth in itertools.chain((first,), itertools.repeat(then)):
            async with self._turn_of(user):
                matches, last = await self._index.matches(
                    found, depth, above=above, below=below, among=own, upward=upward, ranked=ranked
                )
            collected.broken_off, collected.last = last is not None, last
            for part in batches(matches, BATCH if own is None else DEPTHS[0]):
                collected.take(part, *await self._shown(user, uid, part), query)
                if len(collected.found) >= enough:
                    return collected
            if last is None or time.monotonic() > deadline:
                break
            above, below = (last, below) if upward else (above, last)
        return collected

    async def _shown(self, user: str, uid: str, part: Sequence[Match]) -> tuple[dict[str, Row], dict[str, str]]:
        return await shown(self._redis, user, uid, [str(match.item) for match in part])

    async def _own(self, user: str, uid: str, now: float) -> Sequence[int] | None:
        """The ids of the items the user can see, if these are few, once waiting posts were added to the timelines."""
        ids, behind = await item_ids(self._redis, user, uid, MOST_OWN)
        if behind and await self._bring_in(user, uid, now):
            ids, _ = await item_ids(self._redis, user, uid, MOST_OWN)
        return ids

    async def _bring_in(self, user: str, uid: str, now: float) -> bool:
        if not self._visits:
            return await self._reading.fill(user, uid, now)
        return await self._reading.has_caught_up(Grant(user, frozenset(), behind=True), uid, now)

    async def _feeds_named(self, user: str, names: Sequence[str]) -> dict[str, list[str]]:
        """The feeds that the user follows or followed, by the query's names: a part of a feed's name or address, or
        the `_source` of an item. Raises InvalidRequest if a name matches too many feeds.
        """
        if not names:
            return {}
        followed = await self._channels.followed_feeds(user)
        records = await self._feeds.get_many(followed)
        # Thousands of follows take a tenth of a second, and as much again for each dozen names.
        named = await asyncio.to_thread(_named, names, followed, records)
        given = {one.id: one.feed for one in followed.values()}
        former = await self._channels.former_feeds(user)
        found = {}
        for name in names:
            ids = {*named[name], *([name] if name.isdecimal() else [])}
            if name in given:
                ids.add(given[name])
            ids |= {was for was, now in former.items() if now in ids}
            if len(ids) > MOST_FEEDS:
                raise wrong("query", name, f"a 'feed:' that matches at most {MOST_FEEDS} feeds, found {len(ids)}")
            found[name] = sorted(ids)
        return found


def _named(
    names: Iterable[str], followed: Mapping[str, Subscription], records: Mapping[str, FeedRecord]
) -> dict[str, list[str]]:
    """The feeds whose text contains each name's words in a row; the last word may be incomplete."""
    texts = {
        feed: _blanked(
            words_of(f"{one.name or ''} {one.url} {(records[feed].title if feed in records else None) or ''}")
        )
        for feed, one in followed.items()
    }
    sought = {name: _blanked(Phrase.of(name).words) for name in names}
    return {name: [feed for feed, text in texts.items() if words in text] for name, words in sought.items()}


def _blanked(words: Iterable[str]) -> str:
    return "".join(f" {word}" for word in words)


def _is_wanted(row: Row, query: PostQuery) -> bool:
    states = {"unread": not row.is_read, "saved": row.is_saved}
    return all(states[name] == wanted for name, wanted in query.states.items())


def _rows(query: PostQuery, above: int | None = None, below: int | None = None) -> tuple[int | None, int | None]:
    """The rows between which the query's times are, those `above` one and `below` another."""
    if query.since is not None:
        first = row_at(query.since) - 1
        above = first if above is None else max(above, first)
    if query.until is not None:
        end = row_at(query.until)
        below = end if below is None else min(below, end)
    return above, below


def _place(cursor: str | None, parameter: str) -> int | None:
    if cursor is None:
        return None
    found = _PLACE.fullmatch(cursor)
    if found is None:
        raise wrong(parameter, cursor, "a value from the 'paging' of a search")
    return int(found[1])


def _rank(cursor: str | None) -> tuple[int | None, int, int | None]:
    if cursor is None:
        return None, 0, None
    found = _RANK.fullmatch(cursor)
    if found is None:
        raise wrong("after", cursor, "a value from the 'paging' of a search for the best matches")
    return int(found[1]), int(found[2]), int(found[3]) if found[3] else None
