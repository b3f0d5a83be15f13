"""The ids that left a channel, each with the reason, so that nothing adds them again.

They are a set of whole numbers, 16 times the id plus the reason, because the engine needs four bytes for one; for an id
in a sorted set it needs eighty. Scripts ask and change it (lua/parts/gone.lua). The rest of a sorted set of an earlier
version is read too, until `repacking` has moved it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from microsub.base.clock import DAY
from microsub.model.reader import Reason
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.readings import reading_times
from microsub.redis.replies import text
from microsub.redis.scan import members_at, scanned
from microsub.redis.scripts import batches
from microsub.redis.structures import Hash, Members, Value, together

_STEP = 16
_REASONS = frozenset(Reason)
_ITEM = re.compile(r"[1-9][0-9]{0,18}\Z")
_AT_ONCE = 100
"""Ids of a command that asks for all their numbers."""


class Absence(NamedTuple):
    """An id that left a timeline, and why."""

    id: str
    reason: Reason


def absence(number: bytes) -> Absence:
    """The id and the reason in a number of the set."""
    item, reason = divmod(int(number), _STEP)
    return Absence(str(item), Reason(reason))


def old_reason(score: float) -> Reason:
    """The reason in a score of layout 8: whole seconds, plus reason/16."""
    return Reason(round(score % 1 * 16))


def ids_in(numbers: Iterable[bytes]) -> list[str]:
    """The ids in numbers of the set; those without a reason that scripts know are left out."""
    parts = (divmod(int(number), _STEP) for number in numbers)
    return [str(item) for item, reason in parts if reason in _REASONS]


async def absences(redis: Redis, user: str, uid: str) -> AsyncIterator[list[Absence]]:
    """The remembered ids that left a channel, in batches, possibly with repetitions."""
    # The rest of layout 8 first: what moves from there meanwhile is found in the set then.
    async for flat in scanned(redis, "ZSCAN", keys.gone_before(user, uid)):
        yield [Absence(text(item), old_reason(float(at))) for item, at in zip(flat[::2], flat[1::2], strict=True)]
    async for numbers in scanned(redis, "SSCAN", keys.gone(user, uid)):
        yield [absence(number) for number in numbers]


async def left_among(redis: Redis, user: str, uids: Sequence[str], ids: Sequence[str]) -> set[str]:
    """The given ids that have left any of these channels; a text that is no id has left none. Two round trips."""
    ids = [one for one in ids if _ITEM.match(one)]
    found = await members_at(redis, [keys.gone_before(user, uid) for uid in uids], ids)
    parts = [(uid, some) for uid in uids for some in batches(ids, _AT_ONCE)]
    replies = await together(*(Members(redis, keys.gone(user, uid)).has(_numbers(some)) for uid, some in parts))
    for (_, some), reply in zip(parts, replies, strict=True):
        found.update(one for at, one in enumerate(some) if any(reply[at * len(Reason) : (at + 1) * len(Reason)]))
    return found


async def known_in(redis: Redis, user: str, uids: Sequence[str], ids: Sequence[str]) -> set[str]:
    """The given ids that any of these channels shows or hides, or that have left it."""
    if not uids or not ids:
        return set()
    standing = await members_at(redis, [key(user, uid) for uid in uids for key in (keys.posts, keys.hidden)], ids)
    sets = [key(user, uid) for uid in uids for key in (keys.read, keys.hidden_read)]
    was_read = set[str]().union(*(await reading_times(redis, sets, ids)))
    return standing | was_read.intersection(ids) | await left_among(redis, user, uids, ids)


async def some_absences(redis: Redis, user: str, uid: str, most: int) -> list[Absence]:
    """Up to `most` of the remembered ids, chosen at random."""
    return [absence(number) for number in await Members(redis, keys.gone(user, uid)).some(most)]


async def forget(redis: Redis, user: str, uid: str, out: Sequence[Absence]) -> None:
    """Forget that these ids left a channel: it may get them again."""
    await Members(redis, keys.gone(user, uid)).delete([int(one.id) * _STEP + one.reason for one in out])


async def note_day(redis: Redis, now: float, kept: float) -> None:
    """Note the last assigned item id as that of today, unless there is one; forget those of `kept` s ago but the last.

    Times are Unix seconds.
    """
    last, days = await Value(redis, keys.item_ids()).get(), Hash(redis, keys.item_days())
    old = [day for day in sorted(await days.names(), key=int) if (int(day) + 1) * DAY <= now - kept]
    await together(days.set_new({str(int(now // DAY)): last or 0}), days.delete(*old[:-1]))


async def id_of_day(redis: Redis, at: float) -> int:
    """An item id that had been assigned by that Unix time, the last that is known; 0 if none is known."""
    days = await Hash(redis, keys.item_days()).all()
    return max((int(item) for day, item in days.items() if (int(day) + 1) * DAY <= at), default=0)


def _numbers(ids: Iterable[str]) -> list[int]:
    return [int(item) * _STEP + reason for item in ids for reason in Reason]
