"""Events of feeds and posts: a capped stream for programs, and calls in this process.

Events are delivered at least once, in the order of their ids. A reader that falls behind by more than the cap misses
some, and notices that by the oldest id in the stream. Listeners in this process get the events of this process; the
stream has those of all processes.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import structlog

from microsub.redis import keys
from microsub.redis.protocol import Redis, ScriptCall
from microsub.redis.replies import fields, reading, text
from microsub.redis.structures import Log

if TYPE_CHECKING:
    from microsub.feeds.record import Feeds

log = structlog.get_logger(__name__)

KEPT = 10_000
"""Events that are kept at least; Redis trims in blocks, so there may be a few more."""

_ID = re.compile(r"[0-9]{1,19}(?:-[0-9]{1,19})?", re.ASCII)

Kind = Literal["feed_created", "feed_modified", "post_created", "post_modified", "post_deleted"]


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a feed, or of one of its posts.

    `guid` is the post's as its feed wrote it or, if that isn't known, in the form in which guids are compared; every
    event of a post has it. `changed` names the changed fields of the feed, or the changed properties of the post's
    JSON; it is empty for a new feed or post, and for a change whose details a crash lost. `at` is Unix time; `id` is
    set when it is published.
    """

    kind: Kind
    feed: str
    at: float
    post: str = ""
    guid: str = ""
    changed: tuple[str, ...] = ()
    id: str = ""


Listener = Callable[[Event], Awaitable[None]]


class Events:
    """Writes and reads the stream of events, and calls the listeners of this process.

    An event follows the stored change, and may be repeated after a crash.
    """

    def __init__(self, redis: Redis, kept: int = KEPT) -> None:
        self._log = Log(redis, keys.events_stream())
        self._kept = kept
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event of this process; call the result to stop that.

        An exception of a listener is logged, and it gets the next event anyway. It must be fast: the pipeline waits.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def announce(self, events: Sequence[Event]) -> None:
        """Append events, then call the listeners in the order of their arrival. Raises StoreError."""
        await self._log.add(map(_fields, events), self._kept)
        await self.published(events)

    def publishing(self, events: Sequence[Event]) -> list[ScriptCall]:
        """The calls that append events, to be sent with others; then call `published`."""
        return self._log.adding(map(_fields, events), self._kept)

    async def published(self, events: Sequence[Event]) -> None:
        """Call the listeners with events that were appended."""
        for event in events:
            for listener in list(self._listeners):
                try:
                    await listener(event)
                except Exception:
                    log.exception("a listener failed", event_kind=event.kind, feed=event.feed, post=event.post)

    async def since(self, event_id: str, count: int = 100) -> list[Event]:
        """Up to `count` events after that id, oldest first; `0` for all that are stored."""
        return [_event(row) for row in await self._log.after(event_id, count)]

    async def posts_since(self, event_id: str, count: int) -> tuple[tuple[int, ...], str, int]:
        """The posts of up to `count` events after that id, at a third of the cost of the events.

        Returns their ids, each once, the id of the last event, and the number of events.
        """
        rows = await self._log.after(event_id, count)
        with reading(keys.events_stream()):
            posts = tuple(dict.fromkeys(int(post) for _, values in rows if (post := _post_of(values))))
        return posts, text(rows[-1][0]) if rows else event_id, len(rows)

    async def is_before_all(self, event_id: str) -> bool:
        """Whether the event of that id isn't stored any more, so later ones may be missing too."""
        first = await self._log.first()
        return first is not None and _numbers(event_id) < _numbers(first)

    async def reach(self, event_id: str) -> bool:
        """Whether all events after that id are stored, and it isn't ahead of them; `0` is before the first one."""
        last = _numbers(await self.last())
        return _numbers(event_id) <= last and (event_id == "0" or not await self.is_before_all(event_id))

    async def last(self) -> str:
        """The id of the newest event, `0` without events."""
        return await self._log.last() or "0"


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


def _post_of(values: Sequence[bytes]) -> bytes | None:
    names = values[0::2]
    return values[2 * names.index(b"post") + 1] if b"post" in names else None


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


async def describe(
    feeds: Feeds,
    events: Events,
    feed_id: str,
    said: Mapping[str, str | None],
    now: float,
    *,
    if_changed: Mapping[str, str | None] | None = None,
    reading: float | None = None,
    is_new: bool = False,
) -> tuple[str, ...]:
    """Store a feed's description; announce what changed, and earlier unannounced changes.

    Returns the names of the fields that changed now. `if_changed` is written in the same step if any did. A new feed
    is announced as such. A `reading` overtaken by a later one changes nothing. Raises StoreError; repeat the call
    after an interruption.
    """
    changed, note = await feeds.describe(feed_id, said, if_changed, reading)
    if is_new:
        await events.announce([Event("feed_created", feed_id, now)])
        if note:
            await feeds.announced(feed_id, note)
    elif note:
        await announce(feeds, events, feed_id, note, now)
    return changed


async def announce(feeds: Feeds, events: Events, feed_id: str, note: str, now: float) -> None:
    """Announce the changes in a note. Raises StoreError."""
    await events.announce([Event("feed_modified", feed_id, now, changed=tuple(note.split()[1:]))])
    await feeds.announced(feed_id, note)
