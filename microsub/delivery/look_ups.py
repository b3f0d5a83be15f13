"""The stage that completes: what can be looked up for a stored item comes as an update, when it is in.

The item can be read before. A look-up that fails leaves it as it is; what was edited meanwhile is left to the message
of that edit, and what is complete already was asked for twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from microsub.feeds.store.events import Event
from microsub.formats.wire import dump, from_wire, to_wire
from microsub.kit.urls import normalise_profile
from microsub.posts.messages import ItemIncomplete, ItemsStored
from microsub.posts.values import WRITTEN_GUID
from microsub.redis.replies import text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from microsub.delivery.completing import Completing
    from microsub.feeds.announcing import Announcing
    from microsub.feeds.store.record import Feeds
    from microsub.posts.store.items import Items
    from microsub.redis.protocol import Arg, ScriptCall
    from microsub.redis.streams import Message, Stream


_FIELDS = ("Data", "version", "hash", "feed", "guid", WRITTEN_GUID, "incomplete")

_WRITTEN = "written"
"""Begins `incomplete` while what was found is written and not told yet; the properties that changed follow."""


@dataclass(frozen=True, slots=True)
class _News:
    """The version of an item that is completed, and whose it is."""

    item: str
    feed: str
    guid: str
    version: str
    digest: str


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

    async def __call__(self, message: Message) -> Sequence[ScriptCall]:
        """Look up and write, all of it. Raises StoreError; anything else is a message that isn't ours."""
        await self._complete(message)
        return ()

    async def _complete(self, message: Message) -> None:
        wanted = ItemIncomplete.of(message.fields)
        ((data, *others),) = await self._items.fields([wanted.item], _FIELDS)
        version, digest, feed_id, guid, written, incomplete = (text(value) if value else "" for value in others)
        if data is None or not feed_id or version != wanted.version or not incomplete:
            return
        news = _News(wanted.item, feed_id, written or guid, version, digest)
        if incomplete.startswith(_WRITTEN):
            # Completed by a worker that died before it announced the edit.
            await self._tell(news, tuple(incomplete.split()[1:]))
            return
        feed = await self._feeds.get(feed_id)
        wire = orjson.loads(data)
        before = from_wire(wire)
        entry = await self._completing.complete(before, feed.url if feed is not None else None)
        filled = to_wire(entry)
        changed = tuple(name for name in ("author", "refs") if filled.get(name) != wire.get(name))
        if not changed:
            await self._write(news, {"incomplete": ""})
            return
        author = normalise_profile(entry.author.url) if entry.author is not None and entry.author.url else ""
        # What is on the wire and no part of an entry stays.
        data = dump(wire | {name: filled[name] for name in changed})
        if await self._write(news, {"Data": data, "author": author, "incomplete": " ".join((_WRITTEN, *changed))}):
            await self._tell(news, changed)

    async def _write(self, news: _News, fields: Mapping[str, Arg]) -> bool:
        return await self._items.complete(news.item, news.version, news.digest, fields)

    async def _tell(self, news: _News, changed: tuple[str, ...]) -> None:
        if "author" in changed:
            await self._stored.add([ItemsStored(news.feed, edited=(news.item,)).to_fields()])
            self._told()
        event = Event("post_modified", news.feed, self._clock(), news.item, news.guid, changed)
        await self._announcing.tell([event])
        await self._write(news, {"incomplete": ""})
