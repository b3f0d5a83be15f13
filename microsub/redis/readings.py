"""When the items of a channel were read, in whole Unix seconds.

They are a hash of pieces with nine bytes for each item (lua/parts/readings.lua), because the engine needs eighty for
one in a sorted set. The sorted set of an earlier version is read too, until `repacking` has visited the channel.
"""

from __future__ import annotations

import heapq
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from microsub.redis.protocol import Redis
from microsub.redis.scripts import batches, load

PIECES = 16
RECORD = struct.Struct("<IBI")
"""The id in five bytes, and the time."""

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
    than `at_once` in the same second.
    """
    times: dict[int, int] = {}
    for part in batches(keys, 50):
        for pieces in await _pieces(redis, part, ()):
            records = [*_records(pieces)]
            number = Counter(at for _, at in records)
            found = heapq.nlargest(most, ((at, item) for item, at in records if number[at] <= at_once))
            times |= {item: at for at, item in found if at > times.get(item, 0)}
    return [str(item) for item in sorted(times, key=lambda item: (times[item], item), reverse=True)[:most]]


async def _pieces(redis: Redis, keys: Sequence[str], ids: Iterable[str]) -> list[list[bytes | None]]:
    wanted = [one for one in ids if _ITEM.match(one)]
    return await redis.scripts([_READINGS(read=key, ids=wanted) for key in keys])


def _records(pieces: Iterable[bytes | None]) -> Iterator[tuple[int, int]]:
    for piece in pieces:
        for low, high, at in RECORD.iter_unpack(piece or b""):
            yield high << 32 | low, at
