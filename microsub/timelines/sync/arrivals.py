"""The order of arrival: the order in which items came to a user, for apps that sync.

An item has a position from the moment when the first of the user's channels shows it until the last one stops showing
it, so an item in two channels arrived once. Positions are Unix times in microseconds, each higher than all earlier ones
even if a clock is set back. So all items after the last position that an app knows have arrived since. The scripts that
add and remove items update this order in the same step (lua/parts/arrivals.lua).

It takes as much memory as the timelines themselves, so it is kept only for users who need it, from their first need on:
a native app that reads, a device that is notified of posts, an output feed that takes them from channels
(`keep_order`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, repeat
from typing import Literal, NamedTuple, Protocol

from microsub.accounts import absent, grant, unauthorized
from microsub.model.reader import GLOBAL, SAVED, Credential, Grant, View
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis, Refusal
from microsub.redis.replies import text, texts
from microsub.redis.scan import members, members_at, scanned
from microsub.redis.scripts import BATCH, batches, load
from microsub.timelines.channels.follows import Follows, every_channel, few_unread, in_turns, unread_ids
from microsub.timelines.timelinekeys import distinct

ShownState = Literal["posts", "unread"]
"""Items that a channel shows: all, or the unread ones."""
_CHUNK = 5000
_PIECE, _SETS_AT_ONCE = 5000, 4
"""Members that one command reads of a set, and sets of one round trip, which keeps Redis busy for three milliseconds.

ZSCAN would take eighteen times as long.
"""
_LISTED, _LISTS_AT_ONCE = 500, 10
"""Unread items of a channel that a script lists, as for more, a command of its own takes a tenth of the time; and
channels of one round trip.
"""
_WHOLE = 10_000
"""Unread items of a channel that are read in one reply: pieces, which come from all of its items, take longer."""
EXAMINED = 20_000
"""Maximum number of items that one request examines for a channel or a state."""


class Arrival(NamedTuple):
    """An item of the order of arrival: its id, its position (Unix time in microseconds), and its state."""

    id: str
    position: int
    is_read: bool
    is_saved: bool


@dataclass(frozen=True, slots=True)
class ArrivalQuery:
    """The requested piece of the order: up to `limit` items of a state, after a position or from the beginning."""

    limit: int = 1000
    oldest_first: bool = False
    after: str = ""
    view: View = "all"


class Arrivals(NamedTuple):
    """A piece of the order.

    `resume` is the position to continue after, None at the end; `newest` the latest position that was examined.
    """

    rows: tuple[Arrival, ...]
    resume: int | None
    newest: int | None


async def read_arrivals(
    redis: Redis, user: str, uid: str, query: ArrivalQuery, now: float, credential: Credential | None = None
) -> tuple[Grant, Arrivals]:
    """A piece of a channel or of `global`, and the token's grant, if any.

    Examines at most `EXAMINED` items, so it may return fewer than requested though more follow. One round trip for
    each thousand examined items, the first with the token's check. Raises NotFound and Unauthorized.
    """
    is_whole = uid == GLOBAL and query.view == "all"
    granted, piece = await _stretch(redis, user, uid, query, query.limit if is_whole else BATCH, now, credential)
    found = _Found(query)
    while found.take(*piece):
        _, piece = await _stretch(redis, user, uid, replace(query, after=str(found.position)), BATCH, now)
    return granted, found.arrivals()


class _Found:
    """The items found so far."""

    def __init__(self, query: ArrivalQuery) -> None:
        self.position: int | None = None
        self._query = query
        self._newest: int | None = None
        self._rows: list[Arrival] = []
        self._examined = 0
        self._more = False

    def take(self, rows: Sequence[Arrival], shown: Sequence[bool], more: bool) -> bool:
        """Collect consecutive items, and whether the channel shows each; returns whether more are needed."""
        query = self._query
        self._more = more
        if not rows:
            return False
        self.position = rows[-1].position
        self._newest = max(rows[0].position, self.position, self._newest or 0)
        self._examined += len(rows)
        self._rows += [
            row
            for row, stands in zip(rows, shown, strict=True)
            if stands and (query.view == "all" or row.is_read == (query.view == "read"))
        ]
        return self._more and len(self._rows) < query.limit and self._examined < EXAMINED

    def arrivals(self) -> Arrivals:
        """The requested number of items; further ones are left to the next request."""
        limit = self._query.limit
        if len(self._rows) <= limit:
            return Arrivals(tuple(self._rows), self.position if self._more else None, self._newest)
        rows = tuple(self._rows[:limit])
        return Arrivals(rows, rows[-1].position, rows[-1].position if self._query.oldest_first else self._newest)


async def _stretch(
    redis: Redis, user: str, uid: str, query: ArrivalQuery, size: int, now: float,
    credential: Credential | None = None,
) -> tuple[Grant, tuple[Sequence[Arrival], Sequence[bool], bool]]:  # fmt: skip
    """Up to `size` items after the query's position, whatever their state; whether the channel shows each of them, and
    whether more follow.
    """
    token = {"token": keys.token(user, credential.digest), "behind": keys.behind(user)} if credential else {}
    call = load("arrival_page")(
        user,
        saved=keys.posts(user, SAVED),
        **token,
        limit=min(BATCH, size),
        order="oldest" if query.oldest_first else "newest",
        after=query.after,
        uid=uid,
        patterns=[keys.pattern(keys.posts, user), keys.pattern(keys.unread, user)],
        now=now,
    )
    state, *reply = await redis.script(call)
    if state == b"channel":
        raise await absent(redis, user, uid)
    if state:
        raise unauthorized(text(state))
    scopes, behind, pairs, unread, saved, stands, more = reply
    parts = text(pairs).split()
    read, kept = [digit == 48 for digit in unread], [digit == 49 for digit in saved]
    rows = [Arrival(*row) for row in zip(parts[0::2], map(int, parts[1::2]), read, kept, strict=True)]
    return grant(user, scopes, behind=bool(behind)), (rows, [digit == 49 for digit in stands], bool(more))


class ArrivedItems(Protocol):
    """Gives facts about items (`posts.items.Items`)."""

    async def fields(self, ids: Sequence[str], names: Sequence[str]) -> list[list[bytes | None]]:
        """Some fields of some items, row by row."""
        ...


async def keep_order(redis: Redis, items: ArrivedItems, user: str, now: float) -> bool:
    """Keep the user's order of arrival from now on (Unix time); returns whether it was kept already.

    Items that are there have the order in which they were found and their feeds followed, each before all that arrive
    from now on. Any number of processes may do this at once, and a repetition after a crash finishes it.
    """
    begun = await redis.script(load("arrival_begin")(user, now=now))
    if not begun:
        return True
    places = await _estimated(redis, items, user)
    for some in batches(await asyncio.to_thread(_settle, places, int(begun))):
        pairs = [part for one in some for part in (places[one], one)]
        await redis.command("ZADD", keys.arrivals(user), "NX", *pairs)
        # Meanwhile channels may have shown and removed items.
        await repair_arrivals(redis, user, some, now)
    await redis.command("HDEL", keys.arrivals_more(user), "building")
    return False


def _settle(places: dict[str, int], end: int) -> list[str]:
    """Give each item a position of its own before the end; returns the items in this order.

    Runs in a thread, because 150,000 take half a second.
    """
    ordered = sorted(places, key=lambda one: places[one] << 64 | int(one))
    for one in reversed(ordered):
        end = places[one] = min(places[one], end - 1)
    return ordered


async def _estimated(redis: Redis, items: ArrivedItems, user: str) -> dict[str, int]:
    """The items that the user's channels show, with the time in microseconds when they came, as far as it is known."""
    found: dict[str, int] = {}
    uids = await every_channel(redis, user)
    for uid, followed in (await Follows(redis).subscriptions_of(user, uids)).items():
        since = {one.feed: one.followed_at for one in followed}
        async for ids in members(redis, keys.posts(user, uid)):
            rows = await items.fields(ids, ("discovered", "feed"))
            for item, (discovered, feed) in zip(ids, rows, strict=True):
                at = int(max(float(discovered or 0), since.get(text(feed or b""), 0.0)) * 1_000_000)
                found[item] = min(at, found.get(item, at))
    return found


async def forget_order(redis: Redis, user: str) -> None:
    """Keep the order no longer, until `keep_order`."""
    await redis.command("UNLINK", keys.arrivals_more(user), keys.arrivals(user), keys.arrivals_again(user))


async def last_position(redis: Redis, user: str) -> int:
    """The latest position of the order; all later items get higher ones."""
    return int(await redis.command("HGET", keys.arrivals_more(user), "last") or 0)


async def read_newcomers(redis: Redis, user: str, uid: str, after: int, limit: int) -> tuple[list[str], int, bool]:
    """The items that were added to the channel, or (`global`) to any, after a position, and are still shown there.

    Returns their ids, the earliest first, the position up to which all were examined, and whether others follow.

    Unlike in the order of arrival, each channel counts separately: an item that was moved or saved, or that a second
    feed lists, was added to that channel then. Examines at most `limit` items. One round trip.
    """
    channel = {} if uid == GLOBAL else {"posts": keys.posts(user, uid)}
    position, found, more = await redis.script(load("arrival_newcomers")(user, **channel, after=after, limit=limit))
    return list(distinct(texts(found))), int(position), bool(more)


async def places_of(redis: Redis, user: str, ids: Sequence[str]) -> dict[str, int]:
    """The positions of those of the items that have one. One round trip for each five thousand."""
    found: dict[str, int] = {}
    for some in batches(ids, _CHUNK):
        parts = list(batches(some))
        replies = await redis.pipeline([("ZMSCORE", keys.arrivals(user), *part) for part in parts])
        places = zip(some, chain.from_iterable(replies), strict=True)
        found.update((item, int(at)) for item, at in places if at is not None)
    return found


def _words(flat: Sequence[bytes]) -> list[str]:
    """A reply of ids and numbers, which have no spaces, as texts: decoded at once, as there are many of them."""
    return text(b" ".join(flat)).split(" ") if flat else []


async def arrivals_in(redis: Redis, user: str, uids: Sequence[str], state: ShownState) -> dict[str, int]:
    """The items that these channels show in a state, with their positions. Two round trips for a few thousand items.

    An item that a channel shows all the time is never missing, whatever enters and leaves meanwhile.
    """
    if state == "unread":
        found = await unread_in(redis, user, uids)
    else:
        found = await _in_pieces(redis, user, uids)
    return await places_of(redis, user, list(dict.fromkeys(chain.from_iterable(found.values()))))


async def unread_by_channel(
    redis: Redis, user: str, uids: Sequence[str]
) -> tuple[dict[str, int], dict[str, list[str]]]:
    """All unread items of these channels with their positions; and by channel those of them that it shows.

    An item that is unread in one channel counts in all that show it. Three round trips for a few thousand items.
    """
    unread = await unread_in(redis, user, uids)
    places = await places_of(redis, user, list(dict.fromkeys(chain.from_iterable(unread.values()))))
    several = await _in_several(redis, user, places)
    async for uid, ids in in_turns(unread.items(), 1):
        unread[uid] = [*filter(places.__contains__, ids)]
    for some in batches([*unread] if several else [], max(1, _CHUNK // max(1, len(several)))):
        elsewhere = {uid: ids for uid in some if (ids := [*several.difference(unread[uid])])}
        asked = [members_at(redis, [keys.posts(user, uid)], ids) for uid, ids in elsewhere.items()]
        for uid, there in zip(elsewhere, await asyncio.gather(*asked), strict=True):
            unread[uid] += there
    return places, unread


async def _in_several(redis: Redis, user: str, places: Mapping[str, int]) -> set[str]:
    """Those of the items that more than one channel shows."""
    more = keys.arrivals_more(user)
    if len(places) <= BATCH:
        counts = await redis.command("HMGET", more, *places) if places else ()
        return {*compress(places, counts)}
    found = set[str]()
    async for flat in scanned(redis, "HSCAN", more):
        found.update(filter(places.__contains__, texts(flat[0::2])))
    return found


async def unread_in(redis: Redis, user: str, uids: Sequence[str]) -> dict[str, list[str]]:
    """The unread items of each of these channels, as `arrivals_in`. One round trip for a few hundred items."""
    found: dict[str, list[str]] = {}
    large: list[str] = []
    for several in batches(uids, _LISTS_AT_ONCE):
        for uid, ids in zip(several, await few_unread(redis, [(user, uid) for uid in several], _LISTED), strict=True):
            if not isinstance(ids, int):
                found[uid] = ids
            elif ids > _WHOLE:
                large.append(uid)
            else:
                found[uid] = await _whole(redis, user, uid)
    pieces = await _in_pieces(redis, user, large, unread_only=True) if large else {}
    return {uid: found.get(uid) or pieces.get(uid, []) for uid in uids}


async def _whole(redis: Redis, user: str, uid: str) -> list[str]:
    try:
        return _words(await redis.command("SMEMBERS", keys.unread(user, uid)))
    except Refusal:  # a sorted set of layout 8
        return (await unread_ids(redis, [(user, uid)]))[0]


async def _in_pieces(
    redis: Redis, user: str, uids: Sequence[str], *, unread_only: bool = False
) -> dict[str, list[str]]:
    """The items of each of these channels, read in pieces."""
    all_found: dict[str, dict[str, None]] = {uid: {} for uid in uids}
    left = [(uid, "-inf", _PIECE) for uid in uids]
    while left:
        some, left = left[:_SETS_AT_ONCE], left[_SETS_AT_ONCE:]
        pages: list[Command] = [
            ("ZRANGE", keys.posts(user, uid), score, "+inf", "BYSCORE", "LIMIT", 0, size, "WITHSCORES")
            for uid, score, size in some
        ]
        for (uid, score, size), flat in zip(some, await redis.pipeline(pages), strict=True):
            found = _words(flat)
            shown = found[0::2]
            if unread_only:
                (shown,) = await _unread_among(redis, user, [uid], shown)
            all_found[uid].update(dict.fromkeys(shown))
            if len(found) == 2 * size:
                # Scores stay. Items with the last one are read again, and more of them if they fill a whole piece.
                left.append((uid, found[-1], size * 2 if found[-1] == score else _PIECE))
    return {uid: list(ids) for uid, ids in all_found.items()}


async def count_since(redis: Redis, user: str, position: int) -> int:
    """The number of items that arrived at a position or later. One round trip."""
    return int(await redis.command("ZCOUNT", keys.arrivals(user), position, "+inf"))


async def bare_arrivals(redis: Redis, user: str, query: ArrivalQuery) -> tuple[list[Arrival], bool] | None:
    """A piece of the order of `global` without states, all as if unread and not saved; and whether more may follow.

    Five times as many for a round trip as `read_arrivals`. None: the user is removing a channel, so an item's place
    doesn't say whether a channel still shows it.
    """
    size, is_oldest = min(_CHUNK, query.limit), query.oldest_first
    first = f"({query.after}" if query.after else "-inf" if is_oldest else "+inf"
    to: tuple[str, ...] = ("+inf", "BYSCORE") if is_oldest else ("-inf", "BYSCORE", "REV")
    page: Command = ("ZRANGE", keys.arrivals(user), first, *to, "LIMIT", 0, size, "WITHSCORES")
    removing, flat = await redis.pipeline([("EXISTS", keys.removed_channels(user)), page])
    if removing:
        return None
    found = _words(flat)
    return stateless(zip(found[0::2], map(int, found[1::2]), strict=True)), len(found) == 2 * size


def stateless(places: Iterable[tuple[str, int]]) -> list[Arrival]:
    """Items with their positions, as if they were unread and not saved. Takes a fifth of the time of `Arrival`."""
    rows = ((*place, False, False) for place in places)
    return list(map(tuple.__new__, repeat(Arrival), rows))


async def in_channels(redis: Redis, user: str, uids: Sequence[str], ids: Sequence[str], state: ShownState) -> set[str]:
    """The given items that one of these channels shows in a state. One round trip."""
    if state == "posts":
        return await members_at(redis, [keys.posts(user, uid) for uid in uids], ids)
    return set[str]().union(*(await _unread_among(redis, user, uids, ids)))


async def _unread_among(redis: Redis, user: str, uids: Sequence[str], ids: Sequence[str]) -> list[list[str]]:
    """The given items that each of these channels shows as unread, in their order. One round trip."""
    parts = [(at, some) for at in range(len(uids)) for some in batches(ids)]
    try:
        replies = await redis.pipeline([("SMISMEMBER", keys.unread(user, uids[at]), *some) for at, some in parts])
    except Refusal:  # a sorted set of layout 8; for sets, the script takes ten times as long
        calls = [load("unread_among")(user, uids[at], ids=some) for at, some in parts]
        replies = [map(int, states.decode()) for states in await redis.scripts(calls)]
    found: list[list[str]] = [[] for _ in uids]
    for (at, some), states in zip(parts, replies, strict=True):
        found[at].extend(compress(some, states))
    return found


async def unread_after(
    redis: Redis, user: str, uids: Sequence[str], after: int, most: int
) -> tuple[dict[str, int], list[set[str]]]:
    """The last `most` items after a position, with theirs, the latest first; and those unread in each of the channels.

    Two round trips.
    """
    bounds = "+inf", f"({after}", "WITHSCORES", "LIMIT", 0, most
    came = await redis.command("ZREVRANGEBYSCORE", keys.arrivals(user), *bounds)
    places = {text(item): int(float(at)) for item, at in zip(came[0::2], came[1::2], strict=True)}
    if not places:
        return {}, []
    return places, [{*ids} for ids in await _unread_among(redis, user, uids, [*places])]


async def repair_arrivals(redis: Redis, user: str, ids: Sequence[str], now: float) -> None:
    """Correct these items' positions according to what the channels show; `now` is Unix time.

    Ids without a position get one in the given order.
    """
    left = distinct(ids)
    while left:
        call = load("arrival_repair")(user, now=now, ids=left[:BATCH])
        left = left[await redis.script(call) :]


async def repair_all_arrivals(redis: Redis, user: str, now: float) -> None:
    """Correct all positions: items that no channel shows any more lose theirs."""
    async for ids in members(redis, keys.arrivals(user)):
        await repair_arrivals(redis, user, ids, now)


def disagreeing_arrivals(
    shown: Mapping[str, int], places: Iterable[str], more: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Each item whose position disagrees with the number of channels that show it, with the error. Pure.

    A number that changes changes the error's text, so that no error stays the same while a user's feeds are filled.
    """
    placed = set(places)
    for item in sorted(shown.keys() - placed):
        yield item, "shown, but not in the order of arrival"
    for item in sorted(placed - shown.keys()):
        yield item, "in the order of arrival, though no channel shows it"
    for item in sorted({item for item, count in shown.items() if count > 1} | more.keys()):
        there, counted = max(1, shown.get(item, 0)), more.get(item, 0) + 1
        if there != counted:
            yield item, f"counted as shown in {counted} channels by the order of arrival, not in {there}"
