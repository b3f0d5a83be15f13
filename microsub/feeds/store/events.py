"""What happened to feeds and posts, for other programs: a stream that anybody may follow, capped.

Events come at least once, in the order of their ids. A reader that falls behind by more than the cap misses some,
and sees that by the oldest id there is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis, ScriptCall
from microsub.redis.replies import fields, reading, text
from microsub.redis.replies import text as text_of
from microsub.redis.scripts import load

KEPT = 10_000
"""Events that are kept at least; Redis trims in blocks, so there may be a few more."""

_ADD = load("events_add")

_ID = re.compile(r"[0-9]{1,19}(?:-[0-9]{1,19})?", re.ASCII)

Kind = Literal["feed_created", "feed_modified", "post_created", "post_modified", "post_deleted"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to a feed, or to one of its posts.

    `guid` is the post's as its feed wrote it, or, where that isn't known, in the form in which guids are compared.
    `changed` names the fields of the feed, or the properties of the post's JSON, that are not as they were; it is empty
    for what is new, and for a change that a crash left unsaid. An event of a post always has its `guid`. `at` is Unix
    time; `id` is given when it is published.
    """

    kind: Kind
    feed: str
    at: float
    post: str = ""
    guid: str = ""
    changed: tuple[str, ...] = ()
    id: str = ""


class Events:
    """Writes and reads the stream of events."""

    def __init__(self, redis: Redis, kept: int = KEPT) -> None:
        self._redis = redis
        self._kept = kept

    async def publish(self, events: Sequence[Event]) -> None:
        """Append events. Raises StoreError."""
        await self._redis.scripts(self.publishing(events))

    def publishing(self, events: Sequence[Event]) -> list[ScriptCall]:
        """The calls that `publish` makes, to be sent with others."""
        args: list[Arg] = [self._kept]
        for event in events:
            fields = _fields(event)
            args += (len(fields), *fields)
        return [(_ADD, [keys.events_stream()], args)] if events else []

    async def since(self, event_id: str, count: int = 100) -> list[Event]:
        """Up to `count` events behind that id, the oldest first; `0` for all that are kept."""
        rows = await self._redis.command("XRANGE", keys.events_stream(), f"({event_id}", "+", "COUNT", count)
        return [_event(row) for row in rows]

    async def is_before_all(self, event_id: str) -> bool:
        """Whether the event of that id isn't kept any more, so that others behind it may be gone too."""
        rows = await self._redis.command("XRANGE", keys.events_stream(), "-", "+", "COUNT", 1)
        return bool(rows) and _numbers(event_id) < _numbers(text_of(rows[0][0]))

    async def last(self) -> str:
        """The id of the newest event, `0` where there is none: who follows from now on begins behind it."""
        rows = await self._redis.command("XREVRANGE", keys.events_stream(), "+", "-", "COUNT", 1)
        return text_of(rows[0][0]) if rows else "0"


def is_event_id(text: str) -> bool:
    """Whether `text` has the shape of an event's id."""
    return bool(_ID.fullmatch(text))


def _numbers(event_id: str) -> tuple[int, int]:
    milliseconds, _, number = event_id.partition("-")
    return int(milliseconds), int(number or 0)


def _fields(event: Event) -> list[str]:
    values = {"kind": event.kind, "feed": event.feed, "at": f"{event.at:.3f}", "post": event.post, "guid": event.guid}
    values["changed"] = " ".join(event.changed)
    return [part for name, value in values.items() if value for part in (name, value)]


def _event(row: Sequence[Any]) -> Event:
    values = fields(row[1])
    with reading(f"{keys.events_stream()} {row[0]!r}"):
        return Event(
            kind=cast(Kind, values["kind"]),
            feed=values["feed"],
            at=float(values["at"]),
            post=values.get("post", ""),
            guid=values.get("guid", ""),
            changed=tuple(values.get("changed", "").split()),
            id=text(row[0]),
        )
