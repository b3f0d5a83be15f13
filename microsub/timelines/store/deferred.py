"""Timelines that posts were not brought into, because their readers are away or many others come first.

What waits is noted under the user's slot, where every page and list of channels sees it in its own round trip; who
reads then has it brought in from the post store (`timelines.catching_up`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis, Script
from microsub.redis.replies import raw_fields, reading
from microsub.redis.scripts import load

_BEHIND, _CAUGHT_UP = load("timeline_behind"), load("compare_and_set")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Posts of a feed, from the score `since` (Unix seconds) on, that wait for a timeline of the channel `uid`.

    `value` is the note as it was read.
    """

    uid: str
    feed: str
    since: float
    value: bytes


class Behind:
    """What waits, for all users."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def note(self, feed_id: str, since: str, uids: Mapping[str, Sequence[str]]) -> int:
        """Posts of the feed, the earliest at the score `since`, wait for these channels (user → uids); for how many.

        Channels that don't exist are left out. One round trip.
        """
        calls: list[tuple[Script, Sequence[str], Sequence[Arg]]] = [
            (_BEHIND, [keys.channels(user), keys.behind(user)], [feed_id, since, *listed])
            for user, listed in uids.items()
        ]
        return sum(await self._redis.scripts(calls))

    async def of(self, user: str) -> list[Waiting]:
        """Everything that waits for the user's timelines, in a fixed order."""
        key = keys.behind(user)
        found = raw_fields(await self._redis.command("HGETALL", key))
        notes = (_waiting(key, field, value) for field, value in found.items())
        return sorted(notes, key=lambda one: (one.uid, one.feed))

    async def caught_up(self, user: str, done: Sequence[Waiting]) -> int:
        """This was brought in; how many notes are taken back. One that has grown since stays for the next time."""
        args: list[Arg] = [part for one in done for part in (f"{one.uid} {one.feed}", one.value, "")]
        return int(await self._redis.script(_CAUGHT_UP, [keys.behind(user)], args)) if args else 0


def _waiting(key: str, field: str, value: bytes) -> Waiting:
    uid, _, feed = field.partition(" ")
    with reading(f"{key} {field}"):
        return Waiting(uid, feed, float(value.split()[0]), value)
