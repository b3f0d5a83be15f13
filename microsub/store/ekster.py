"""Reading the Redis of the older Go server (https://github.com/pstuifzand/ekster). Nothing here writes.

Its keys have no prefix and belong to one user: `channels` (set of uids), `channel_sortorder_<uid>` (number),
`zchannel:<uid>:posts` (sorted set: key of an unread item by Unix time of publishing; what is read leaves it),
`channel:<uid>:read` (set of keys of read items; a sorted set in derived servers), `stream:<uid>` (stream of whole
items, for notifications), and the items, hashes of `ID`, `Published`, `Read` and `Data`. Later versions keep timelines
in Postgres, which is of no concern here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from microsub.errors import InvalidRequest, StoreError
from microsub.store import keys
from microsub.store.connect import connect
from microsub.store.port import Redis

BATCH = 500
_FIELDS = ("ID", "Published", "Data")


@dataclass(frozen=True, slots=True)
class OldItem:
    """An item as it stands there. `id` is its own, `data` its JSON or None where there is none."""

    id: str
    published: str
    data: bytes | None


class OldDatabase:
    """The database of one user. Memberships are read in batches, so nothing blocks it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def channels(self) -> list[str]:
        """The uids of its channels, in their order."""
        uids = [uid async for batch in self._members("channels", {"set": "SSCAN"}) for uid, _ in batch]
        orders = await self._redis.pipeline([("GET", f"channel_sortorder_{uid}") for uid in uids])
        by_place = {uid: _number(order) for uid, order in zip(uids, orders, strict=True)}
        return sorted(by_place, key=lambda uid: (by_place[uid], uid))

    def unread(self, uid: str) -> AsyncIterator[list[tuple[str, float | None]]]:
        """Item ids with Unix time of publishing, in batches; an id may come repeatedly."""
        return self._members(f"zchannel:{uid}:posts", {"zset": "ZSCAN", "set": "SSCAN"})

    def read(self, uid: str) -> AsyncIterator[list[tuple[str, float | None]]]:
        """Ids of the items that were read."""
        return self._members(f"channel:{uid}:read", {"set": "SSCAN", "zset": "ZSCAN"})

    async def streamed(self, uid: str) -> AsyncIterator[list[OldItem]]:
        """The items of a channel that is a stream, under ids that are theirs alone."""
        key = f"stream:{uid}"
        start = "-"
        while await self._type(key) == "stream":
            rows = await self._redis.command("XRANGE", key, start, "+", "COUNT", BATCH)
            if not rows:
                return
            yield [_streamed(uid, row) for row in rows]
            start = "(" + rows[-1][0].decode()

    async def items(self, ids: Sequence[str]) -> list[OldItem]:
        """The items of these ids, in their order; without data where there are none."""
        names = [keys.item(item_id) for item_id in ids]
        types = await self._redis.pipeline([("TYPE", name) for name in names])
        there = [name for name, found in zip(names, types, strict=True) if _decoded(found) == "hash"]
        rows = await self._redis.pipeline([("HMGET", name, *_FIELDS) for name in there])
        found = dict(zip(there, rows, strict=True))
        return [_item(item_id, found.get(name)) for item_id, name in zip(ids, names, strict=True)]

    async def _members(self, key: str, verbs: dict[str, str]) -> AsyncIterator[list[tuple[str, float | None]]]:
        kind = await self._type(key)
        if kind not in verbs:
            return
        cursor: Any = b"0"
        while True:
            cursor, flat = await self._redis.command(verbs[kind], key, cursor, "COUNT", BATCH)
            scored = kind == "zset"
            members = flat[0::2] if scored else flat
            scores = [float(score) for score in flat[1::2]] if scored else [None] * len(members)
            batch = [
                (_decoded(member).removeprefix(keys.ITEM_PREFIX), at)
                for member, at in zip(members, scores, strict=True)
            ]
            if batch:
                yield batch
            if int(cursor) == 0:
                return

    async def _type(self, key: str) -> str:
        return _decoded(await self._redis.command("TYPE", key))


@contextlib.asynccontextmanager
async def open_old(url: str, own: Redis) -> AsyncIterator[OldDatabase]:
    """The database at `url`. `own` is that of this server, which must be another one: both call their items `item:…`.

    Raises what `connect` raises, and InvalidRequest where both are one (as far as Redis tells).
    """
    redis = await connect(url)
    try:
        place = await _place(redis)
        if place is not None and place == await _place(own):
            raise InvalidRequest("both servers in one database: items would overwrite each other; use another for this")
        yield OldDatabase(redis)
    finally:
        await redis.aclose()


async def _place(redis: Redis) -> tuple[str, str] | None:
    try:
        server, client = await redis.pipeline([("INFO", "server"), ("CLIENT", "INFO")])
        run, number = re.search(r"run_id:(\w+)", _decoded(server)), re.search(r"\bdb=(\d+)", _decoded(client))
    except (StoreError, RedisError):  # a rented one may forbid it
        return None
    return (run[1], number[1]) if run and number else None


def _item(item_id: str, row: Sequence[bytes | None] | None) -> OldItem:
    if row is None:
        return OldItem(item_id, "", None)
    _, published, data = row
    return OldItem(item_id, _decoded(published or b""), data)


def _streamed(uid: str, row: Any) -> OldItem:
    stream_id, flat = row
    fields = dict(zip(flat[0::2], flat[1::2], strict=True))
    own = _decoded(fields.get(b"ID", b""))
    return OldItem(own or f"{uid} {_decoded(stream_id)}", _decoded(fields.get(b"Published", b"")), fields.get(b"Data"))


def _decoded(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _number(value: bytes | None) -> float:
    try:
        return float(value) if value is not None else float("inf")
    except ValueError:
        return float("inf")
