"""The stage that completes: what can be looked up for a stored item comes as an update, when it is in.

The item can be read before. A look-up that fails leaves it as it is; what was edited meanwhile is left to the message
of that edit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import orjson

from microsub.formats.urls import normalise_profile
from microsub.formats.wire import dump, from_wire, to_wire
from microsub.store.events import Event
from microsub.store.messages import ItemIncomplete, ItemsStored

if TYPE_CHECKING:
    from microsub.services.announcing import Announcing
    from microsub.services.completing import Completing
    from microsub.store.feeds import Feeds
    from microsub.store.items import Items
    from microsub.store.port import Arg
    from microsub.store.streams import Message, Stream


class Populate:
    """Handles `ItemIncomplete`."""

    def __init__(
        self,
        feeds: Feeds,
        items: Items,
        completing: Completing,
        stored: Stream,
        announcing: Announcing,
        *,
        clock: Callable[[], float] = time.time,
        told: Callable[[], object] = lambda: None,
    ) -> None:
        """`told` is called when there is news for the next stage."""
        self._feeds = feeds
        self._items = items
        self._completing = completing
        self._stored = stored
        self._announcing = announcing
        self._clock = clock
        self._told = told

    async def __call__(self, message: Message) -> None:
        """Look up and write. Raises StoreError; anything else is a message that isn't ours."""
        wanted = ItemIncomplete.of(message.fields)
        ((data, version, feed_id, guid),) = await self._items.fields([wanted.item], ("Data", "version", "feed", "guid"))
        if data is None or feed_id is None or (version or b"").decode() != wanted.version:
            return
        feed = await self._feeds.get(feed_id.decode())
        wire = orjson.loads(data)
        before = from_wire(wire)
        entry = await self._completing.complete(before, feed.url if feed is not None else None)
        filled = to_wire(entry)
        changed = tuple(name for name in ("author", "refs") if filled.get(name) != wire.get(name))
        if not changed:
            await self._items.complete(wanted.item, wanted.version, {"incomplete": ""})
            return
        author = normalise_profile(entry.author.url) if entry.author is not None and entry.author.url else ""
        # What is on the wire and no part of an entry stays.
        data = dump(wire | {name: filled[name] for name in changed})
        fields: dict[str, Arg] = {"Data": data, "author": author, "incomplete": ""}
        if await self._items.complete(wanted.item, wanted.version, fields):
            if entry.author != before.author:
                await self._stored.add([ItemsStored(feed_id.decode(), edited=(wanted.item,)).to_fields()])
                self._told()
            event = Event(
                "post_modified", feed_id.decode(), self._clock(), wanted.item, (guid or b"").decode(), changed
            )
            await self._announcing.tell([event])
