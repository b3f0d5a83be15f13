"""When the items of a channel were read, in whole Unix seconds.

They are a hash of pieces with nine bytes for each item (lua/parts/readings.lua), because the engine needs eighty for
one in a sorted set. The sorted set of an earlier version is read too, until `repacking` has visited the channel.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from microsub.redis.protocol import Redis
from microsub.redis.scripts import batches, load

PIECES = 16
RECORD = struct.Struct("<IBI")
"""The id in five bytes, and the time."""
_ID_BITS = 40

_READINGS = load("readings")
_ITEM = re.compile(r"[0-9]{1,15}\Z")


def piece_order(item: str) -> str:
    """Sort items by piece, however deep pieces are divided: by their lowest bits first."""
    return format(int(item), "040b")[::-1]


async def reading_times(redis: Redis, keys: Sequence[str], ids: Iterable[str] = ()) -> list[dict[str, int]]:
    """For each of these keys the time of reading by id: of all items, or of the given ones that were read, and others.

    One round trip.
    """
    found = await _pieces(redis, keys, ids)
    return [{str(item): at for item, at in _records(pieces)} for pieces in found]


async def times_alone(redis: Redis, keys: Sequence[str]) -> list[list[int]]:
    """The times of reading in each of these keys. One round trip."""
    return [[at for _, at in _records(pieces)] for pieces in await _pieces(redis, keys, ())]


async def last_read(redis: Redis, keys: Sequence[str], most: int, at_once: int) -> list[str]:
    """The ids of the items that were read last, that first, without those that came or were marked as read with more
    than `at_once` in the same second. One round trip for each fifty keys.
    """
    records: list[int] = []

    def add(found: Sequence[Sequence[bytes | None]]) -> None:
        records.extend(at << _ID_BITS | item for pieces in found for item, at in _records(pieces))

    for part in batches(keys, 50):
        await asyncio.to_thread(add, await _pieces(redis, part, ()))  # a hundred thousand take a tenth of a second
    return await asyncio.to_thread(_last_alone, records, most, at_once)


def _last_alone(records: list[int], most: int, at_once: int) -> list[str]:
    records.sort(reverse=True)
    found: dict[int, None] = {}
    for _, some in groupby(records, lambda record: record >> _ID_BITS):
        items = dict.fromkeys(record & (1 << _ID_BITS) - 1 for record in some)
        if len(items) <= at_once:
            found |= items
        if len(found) >= most:
            break
    return [str(item) for item in found][:most]


async def _pieces(redis: Redis, keys: Sequence[str], ids: Iterable[str]) -> list[list[bytes | None]]:
    wanted = [one for one in ids if _ITEM.match(one)]
    return await redis.scripts([_READINGS(read=key, ids=wanted) for key in keys])


def _records(pieces: Iterable[bytes | None]) -> Iterator[tuple[int, int]]:
    for piece in pieces:
        for low, high, at in RECORD.iter_unpack(piece or b""):
            yield high << 32 | low, at
