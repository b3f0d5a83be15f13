"""Events of feeds and posts that were created or modified: code in this process by call, others by stream.

Listeners get what this process stored. With several workers, the stream has the events of all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog

from microsub.feeds.store.events import Event, Events
from microsub.redis.protocol import ScriptCall

Listener = Callable[[Event], Awaitable[None]]

log = structlog.get_logger(__name__)


class Announcing:
    """Publishes events. An event may come twice, after a crash; it comes after the change is stored."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event of this process; call the result to end that.

        One that raises is logged and hears the next event all the same. It should be quick: the pipeline waits.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def tell(self, events: Sequence[Event]) -> None:
        """Publish events, then call the listeners in the order of their arrival. Raises StoreError."""
        await self._events.publish(events)
        await self.published(events)

    def publishing(self, events: Sequence[Event]) -> list[ScriptCall]:
        """The calls that publish events, to be sent with others; then `published` must be called."""
        return self._events.publishing(events)

    async def published(self, events: Sequence[Event]) -> None:
        """Call the listeners with events that were published."""
        for event in events:
            for listener in list(self._listeners):
                try:
                    await listener(event)
                except Exception:
                    log.exception("a listener failed", event_kind=event.kind, feed=event.feed, post=event.post)
