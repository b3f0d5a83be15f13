"""Changes in a user's channels, for listening apps: a capped stream for each user.

The scripts that make a change also write its event (lua/parts/events.lua), so there is an event for every change and
no other. They write only while the stream exists: from the first listening app until hours after the last one. Events
don't contain what changed: that is read together with the event, so it is never older than the event.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from microsub.accounts import grant, unauthorized
from microsub.base.rate_limits import AT_ONCE, RateLimit, RateLimiter
from microsub.model.reader import SAVED, Channel, Credential, Grant, Row
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text, texts
from microsub.redis.scripts import load
from microsub.redis.tracking import Tracker
from microsub.timelines.channels.store import FIELDS, read_settings

KEPT_SECONDS = 6 * 3600
"""Seconds for which events are kept after the last app has listened."""
EVENTS_OF_TOKEN = RateLimit("open event streams", "token", 10, AT_ONCE)
EVENTS_OF_USER = RateLimit("open event streams", "user", 20, AT_ONCE)
EVENTS_OF_NETWORK = RateLimit("open event streams", "network", 200, AT_ONCE)
EVENTS_IN_ALL = RateLimit("open event streams", "all together", 5000, AT_ONCE)
"""In each process. An open stream costs about 30 KB, and up to 80 KB more while its client doesn't read."""
EVENTS_AT_ONCE = 20
"""Maximum number of events per read."""

ITEMS = "items"
"""The name of the event for items of a channel that were added, removed, or changed state."""
TURNS = 8
"""Maximum number of streams that read at the same time: pages are still answered while all streams have news."""
CHECK_EVERY, LOOK_EVERY = 5.0, 1.0
"""Seconds between two reads of a silent stream: while Redis reports changes, and while it can't."""

_OPEN, _READ = load("events_open"), load("events_read")
_PLACE = re.compile(r"([0-9]{1,19}-[0-9]{1,19})(?:\.([0-9]{1,19}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class EventPosition:
    """The position up to which an app has read: through the event of that id, or only up to an item in it."""

    event: str
    item: str = ""

    @classmethod
    def of(cls, text: str) -> EventPosition | None:
        """Parse the wire form; None for any other text."""
        found = _PLACE.fullmatch(text)
        return cls(found[1], found[2] or "") if found else None

    def __str__(self) -> str:
        return f"{self.event}.{self.item}" if self.item else self.event


class LiveEvent(NamedTuple):
    """A change in a channel: of its items (`ITEMS`), or of the channel itself.

    `came` are items that were added unread and that the channel still shows, oldest first. `order` has the uids of all
    channels if their order changed.
    """

    id: str
    name: str
    channel: str
    came: tuple[Row, ...] = ()
    order: tuple[str, ...] = ()


async def open_events(redis: Redis, user: str) -> EventPosition:
    """Keep the user's events for the next hours; returns the place of the latest one."""
    last: bytes = await redis.script(_OPEN(user, kept=KEPT_SECONDS))
    return EventPosition(text(last))


async def read_events(
    redis: Redis, credential: Credential, after: EventPosition, now: float
) -> tuple[Grant, Sequence[LiveEvent], Mapping[str, Channel]] | None:
    """The token's grant, the next events after that position in their order, and their existing channels by uid.

    None if the position isn't stored any more, so later events may be missing too. One round trip with the token's
    check. Raises Unauthorized.
    """
    user = credential.user
    call = _READ(
        user,
        credential.digest,
        saved=keys.posts(user, SAVED),
        now=now,
        after=after.event,
        limit=EVENTS_AT_ONCE,
        patterns=[keys.pattern(key, user) for key in (keys.channel, keys.posts, keys.unread)],
        item=after.item,
    )
    state, *reply = await redis.script(call)
    if state == b"lost":
        return None
    if state:
        raise unauthorized(text(state))
    scopes, behind, entries, heads, uids = reply
    channels = {channel.uid: channel for channel in map(_channel, heads)}
    order = tuple(texts(uids))
    events = [_event(entry, order) for entry in entries]
    return grant(user, scopes, behind=bool(behind)), events, channels


def _channel(head: Sequence[Any]) -> Channel:
    uid, name, style, unread = head
    settings = read_settings([style or None if field == "unread" else None for field in FIELDS])
    return Channel(text(uid), text(name), unread, settings)


def _event(entry: Sequence[Any], order: tuple[str, ...]) -> LiveEvent:
    event_id, event, uid, ids, unread, saved, is_order = entry
    channel = text(uid)
    rows = (
        Row(item, "", flag == 48, channel, kept == 49)
        for item, flag, kept in zip(text(ids).split(), unread, saved, strict=True)
    )
    return LiveEvent(text(event_id), text(event), channel, tuple(rows)[::-1], order if is_order else ())


class Listeners:
    """The streams of this process that wait for events. Belongs to one event loop.

    Redis reports which streams have changed, over one connection (one per master of a cluster). While it can't, every
    stream is read once a second. Listens from the first `news` until `aclose`.
    """

    def __init__(self, tracker: Tracker | None = None) -> None:
        self._tracker = tracker
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._listening = False
        self.limits = RateLimiter()
        self.turns = asyncio.Semaphore(TURNS)
        self.patience = LOOK_EVERY
        """Seconds to wait for news before reading without a report."""
        self.stopped = False
        """The process is stopping: all streams end now."""

    def news(self, user: str) -> asyncio.Future[None]:
        """A future that ends at the next change of the user's events, or earlier; call `forget` if you stop waiting."""
        if self._tracker is not None and not self._listening:
            self._listening = True
            self._tracker.start(self)
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(keys.live_events(user), set()).add(waiting)
        return waiting

    def forget(self, user: str, waiting: asyncio.Future[None]) -> None:
        """Stop waiting."""
        key = keys.live_events(user)
        others = self._waiting.get(key, set())
        others.discard(waiting)
        if not others:
            self._waiting.pop(key, None)

    def stop(self) -> None:
        """End all streams, and allow no new ones."""
        self.stopped = True
        self._wake(list(self._waiting))

    async def aclose(self) -> None:
        """Stop listening."""
        self.stop()
        if self._tracker is not None:
            await self._tracker.aclose()

    def tracked(self) -> None:
        """See `tracking.Listener`: there may be changes that weren't reported."""
        self.patience = CHECK_EVERY
        self._wake(list(self._waiting))

    def untracked(self) -> None:
        """See `tracking.Listener`."""
        self.patience = LOOK_EVERY
        self._wake(list(self._waiting))

    def changed(self, names: list[str] | None) -> None:
        """See `tracking.Listener`."""
        self._wake(list(self._waiting if names is None else names))

    def _wake(self, names: Sequence[str]) -> None:
        for name in names:
            for waiting in self._waiting.pop(name, ()):
                if not waiting.done():
                    waiting.set_result(None)
