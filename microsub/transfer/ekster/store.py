"""Reads the Redis of the older Go server (https://github.com/pstuifzand/ekster).

Its keys have no prefix and belong to one user: `channels` (set of uids), `channel_sortorder_<uid>` (number),
`zchannel:<uid>:posts` (sorted set: key of an unread item by Unix time of publishing; read items are removed),
`channel:<uid>:read` (set of keys of read items; a sorted set in derived servers), `stream:<uid>` (stream of whole
items, for notifications), and the items, hashes of `ID`, `Published`, `Read` and `Data`. Later versions keep timelines
in Postgres, which isn't supported here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple

from microsub.base.errors import InvalidRequest, StoreError
from microsub.redis import keys
from microsub.redis.connect import RedisError, connect
from microsub.redis.protocol import Command, Redis

BATCH = 500
MOST_BYTES = 64 << 20
"""Maximum bytes of the replies to one call, usually a batch of items."""
MOST_MEMBERS = 500_000
"""Maximum members of a set or stream."""
_FEWEST = 50
"""The minimum that a batch counts for: Redis seldom returns smaller ones, but an endless reply might."""
MOST_TEXT = 128 << 20
"""Maximum bytes of all names of channels and items."""
LONGEST_NAME = 4096
PATIENCE = 600.0
"""Seconds that all replies together may take; a Redis replies within milliseconds."""
PATIENCE_OF_CALL = 30.0
"""Seconds that the replies to one call may take, so that slow drips are noticed soon."""
_FIELDS = ("ID", "Published", "Data")
_OF_CHANNEL = ("zchannel:{}:posts", "channel:{}:read", "stream:{}")


class OldItem(NamedTuple):
    """A stored item: its `id`, and its JSON `data`, or None if it has none."""

    id: str
    published: str
    data: bytes | None


class OldDatabase:
    """The database of one user. Memberships are read in batches, so nothing blocks it.

    The server there isn't trusted: its time and memory are limited, and invalid replies are errors. All methods raise
    InvalidRequest then, and StoreError if it can't be reached or a limit of the connection is reached.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._patience = PATIENCE
        self._text = 0

    async def channels(self) -> list[str]:
        """The uids of its channels, in their order."""
        uids = [uid async for batch in self._members("channels", {"set": "SSCAN"}) for uid, _ in batch]
        orders = await self._ask([("GET", f"channel_sortorder_{uid}") for uid in uids])
        with _sound():
            by_place = {uid: _number(order) for uid, order in zip(uids, orders, strict=True)}
        return sorted(by_place, key=lambda uid: (by_place[uid], uid))

    async def is_empty(self, uids: Sequence[str]) -> bool:
        """Whether it has no channels, and no posts in any of these."""
        names = ["channels", *(form.format(uid) for uid in uids for form in _OF_CHANNEL)]
        return all(_decoded(kind) == "none" for kind in await self._ask([("TYPE", name) for name in names]))

    def unread(self, uid: str) -> AsyncIterator[list[tuple[str, float | None]]]:
        """Item ids with Unix time of publishing, in batches; an id may come repeatedly."""
        return self._members(f"zchannel:{uid}:posts", {"zset": "ZSCAN", "set": "SSCAN"})

    def read(self, uid: str) -> AsyncIterator[list[tuple[str, float | None]]]:
        """The ids of read items."""
        return self._members(f"channel:{uid}:read", {"set": "SSCAN", "zset": "ZSCAN"})

    async def streamed(self, uid: str) -> AsyncIterator[list[OldItem]]:
        """The items of a channel that is a stream, with ids of their own."""
        key = f"stream:{uid}"
        start, count = "-", 0
        while await self._type(key) == "stream":
            (rows,) = await self._ask([("XRANGE", key, start, "+", "COUNT", BATCH)])
            if not rows:
                return
            with _sound():
                found = [_streamed(uid, row) for row in rows]
                start = "(" + rows[-1][0].decode()
            count += max(len(found), _FEWEST)
            self._bounded(key, count, [item.id for item in found])
            yield found

    async def items(self, ids: Sequence[str]) -> list[OldItem]:
        """The items of these ids, in order; missing ones have no data."""
        names = [keys.item(item_id) for item_id in ids]
        types = await self._ask([("TYPE", name) for name in names])
        with _sound():
            there = [name for name, found in zip(names, types, strict=True) if _decoded(found) == "hash"]
        rows = await self._ask([("HMGET", name, *_FIELDS) for name in there])
        with _sound():
            found = dict(zip(there, rows, strict=True))
            return [_item(item_id, found.get(name)) for item_id, name in zip(ids, names, strict=True)]

    async def _members(self, key: str, verbs: dict[str, str]) -> AsyncIterator[list[tuple[str, float | None]]]:
        kind = await self._type(key)
        if kind not in verbs:
            return
        cursor: Any = b"0"
        count = 0
        while True:
            (reply,) = await self._ask([(verbs[kind], key, cursor, "COUNT", BATCH)])
            with _sound():
                cursor, batch = _scanned(reply, scored=kind == "zset")
            count += max(len(batch), _FEWEST)
            self._bounded(key, count, [name for name, _ in batch])
            if batch:
                yield batch
            if cursor == b"0":
                return

    async def _type(self, key: str) -> str:
        (reply,) = await self._ask([("TYPE", key)])
        return _decoded(reply)

    async def _ask(self, commands: Sequence[Command]) -> list[Any]:
        began = time.monotonic()
        try:
            async with asyncio.timeout(min(self._patience, PATIENCE_OF_CALL)):
                return await self._redis.pipeline(commands)
        except TimeoutError:
            raise InvalidRequest(
                f"the old Redis is too slow: more than {PATIENCE_OF_CALL:g} s for a reply, or {PATIENCE:g} s for all"
            ) from None
        except RedisError as error:
            raise InvalidRequest(f"the old Redis returned an error: {str(error)[:200]}") from error
        finally:
            self._patience -= time.monotonic() - began

    def _bounded(self, key: str, count: int, names: Sequence[str]) -> None:
        self._text += sum(map(len, names))
        if count > MOST_MEMBERS or self._text > MOST_TEXT or any(len(name) > LONGEST_NAME for name in names):
            raise InvalidRequest(
                f"the old Redis has too much data: '{key[:80]}' has more than {MOST_MEMBERS} members, names "
                f"longer than {LONGEST_NAME} characters, or brings all names to more than {MOST_TEXT >> 20} MiB"
            )


@contextlib.contextmanager
def _sound() -> Iterator[None]:
    """Raise InvalidRequest if a reply isn't valid for its command."""
    try:
        yield
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise InvalidRequest(f"the old Redis sent an invalid reply: {str(error)[:200]}") from error


@contextlib.asynccontextmanager
async def open_old(url: str, own: Redis) -> AsyncIterator[OldDatabase]:
    """The database at `url`, which must not be `own`, because both use keys `item:…`.

    Raises what `connect` raises, and InvalidRequest if both are the same (as far as Redis shows).
    """
    redis = await connect(url, most_bytes=MOST_BYTES)
    try:
        place = await _place(redis)
        if place is not None and place == await _place(own):
            raise InvalidRequest("both servers use one database, and items would collide: use another for this server")
        yield OldDatabase(redis)
    finally:
        await redis.aclose()


async def _place(redis: Redis) -> tuple[str, str] | None:
    try:
        server, client = await redis.pipeline([("INFO", "server"), ("CLIENT", "INFO")])
        run, number = re.search(r"run_id:(\w+)", _decoded(server)), re.search(r"\bdb=(\d+)", _decoded(client))
    except (StoreError, RedisError):  # a hosted one may forbid it
        return None
    return (run[1], number[1]) if run and number else None


def _scanned(reply: Any, *, scored: bool) -> tuple[bytes, list[tuple[str, float | None]]]:
    """Cursor and members of a reply to SSCAN or ZSCAN, with scores, None for a set."""
    cursor, flat = reply
    if not isinstance(cursor, bytes) or not isinstance(flat, list):
        raise TypeError("a scan without cursor or members")
    members = flat[0::2] if scored else flat
    scores = [float(score) for score in flat[1::2]] if scored else [None] * len(members)
    return cursor, [
        (_decoded(member).removeprefix(keys.ITEM_PREFIX), at if at is not None and math.isfinite(at) else None)
        for member, at in zip(members, scores, strict=True)
    ]


def _item(item_id: str, row: Sequence[bytes | None] | None) -> OldItem:
    if row is None:
        return OldItem(item_id, "", None)
    _, published, data = row
    return OldItem(item_id, _decoded(published or b""), _bytes(data))


def _streamed(uid: str, row: Any) -> OldItem:
    stream_id, flat = row
    fields = dict(zip(flat[0::2], flat[1::2], strict=True))
    own = _decoded(fields.get(b"ID", b""))
    return OldItem(
        own or f"{uid} {_decoded(stream_id)}", _decoded(fields.get(b"Published", b"")), _bytes(fields.get(b"Data"))
    )


def _bytes(value: Any) -> bytes | None:
    if value is not None and not isinstance(value, bytes):
        raise TypeError("a field that isn't text")
    return value


def _decoded(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _number(value: bytes | None) -> float:
    try:
        found = float(value) if value is not None else math.inf
    except ValueError:
        return math.inf
    return math.inf if math.isnan(found) else found
