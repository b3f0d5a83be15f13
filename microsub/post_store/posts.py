"""Reading the post store: feeds and their posts as programs see them.

Nothing here belongs to a user: no read state, no channels, no followers. Saving is `library.post_store`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from microsub.feeds import Event, Events, FeedRecord, Feeds, is_event_id
from microsub.formats.entry_id import identity
from microsub.model.jf2 import Entry
from microsub.model.moments import number
from microsub.model.reader import Cursor
from microsub.post_store.saved import loads, wrong
from microsub.posts import PIECE, WRITTEN_GUID, Items, within

NEWEST = "newest"
_MOST = 10**9
"""A number above every page's limit."""


@dataclass(frozen=True, slots=True)
class Post:
    """A post of the store.

    `feed` is the feed's id; `guid` the identifier of the post in it, as the feed wrote it. `item` is the jf2 that users
    get, sanitised and with absolute URLs. `fields` are those that a program has saved, as it saved them; empty for a
    post that was only polled. `timestamp` is the time of publication, `discovered` and `updated` are the times at which
    the store got the post and its last change.
    """

    id: str
    feed: str
    guid: str
    timestamp: datetime
    discovered: datetime
    updated: datetime
    item: Mapping[str, Any]
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PostPage:
    """Posts, newest first; `after` leads to the next page, None at the end."""

    posts: tuple[Post, ...]
    after: Cursor | None = None


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Feeds by id; `after` leads to the next page, None at the end. A page may be short."""

    feeds: tuple[FeedRecord, ...]
    after: int | None = None


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events, the oldest first; `after` leads to the next page; `missed`: earlier events may have been dropped."""

    events: tuple[Event, ...]
    after: str
    missed: bool = False


class Posts:
    """The post store, for reading. A `feed` is given by its URL or its id.

    Every method may raise StoreError, and InvalidRequest for an invalid argument.
    """

    def __init__(self, feeds: Feeds, items: Items, events: Events) -> None:
        self._feeds = feeds
        self._items = items
        self._events = events

    async def get(self, post_id: str) -> Post | None:
        """The post of that id; None if it doesn't exist, or belongs to no feed."""
        row = await self._items.get(post_id) if is_id(text("post_id", post_id)) else None
        return _post(row) if row and row.get("feed") and "score" in row else None

    async def get_by_guid(self, feed: str, guid: str) -> Post | None:
        """The feed's post with that guid; None if there is none (any more).

        Guids that are URLs are compared as URLs: http or https, tracking parameters and a final slash don't matter.
        """
        text("guid", guid)
        feed_id = await self._id_of(feed)
        if feed_id is None:
            return None
        for form in forms_of(guid):
            row = await self._items.by_guid(feed_id, form)
            if row and "score" in row:
                return _post(row)
        return None

    async def newest(self, feed: str, limit: int = 20, after: Cursor | None = None) -> PostPage:
        """Up to `limit` posts of the feed after `after`, by time of publication or last change.

        Fewer if they are large. Following `after` yields every post that isn't changed meanwhile exactly once; changed
        posts move to the front.
        """
        limit = whole("limit", limit)
        if after is not None and not _is_cursor(after):
            raise wrong("after", after, "the Cursor of a page, or None")
        feed_id = await self._id_of(feed)
        if feed_id is None or limit < 1:
            return PostPage(())
        places = await self._items.page(feed_id, limit + 1, after)
        sizes = await self._items.sizes([place.item for place in places[:limit]])
        shown = places[: within(sizes, PIECE)]
        rows = await self._items.get_many([place.item for place in shown])
        posts = tuple(_post(row) for row in rows if row and "score" in row)
        return PostPage(posts, shown[-1] if len(places) > len(shown) else None)

    async def feed(self, feed: str) -> FeedRecord | None:
        """The feed of that URL or id; None if the store has no such feed."""
        feed_id = await self._id_of(feed)
        return await self._feeds.get(feed_id) if feed_id is not None else None

    async def feeds(self, limit: int = 100, after: int = 0) -> FeedPage:
        """Up to `limit` feeds with ids greater than `after`, by id."""
        limit, after = whole("limit", limit), whole("after", after)
        if limit < 1:
            return FeedPage(())
        records, further = await self._feeds.page(limit, after)
        return FeedPage(tuple(records), further)

    async def events(self, after: str = "0", limit: int = 100) -> EventPage:
        """Up to `limit` events after that id; `0` for the oldest that are kept, `newest` for future ones."""
        limit = whole("limit", limit)
        if after == NEWEST:
            return EventPage((), await self._events.last())
        if not is_event_id(text("after", after)):
            raise wrong("after", after, f"the id of an event, '0', or '{NEWEST}'")
        events = tuple(await self._events.since(after, limit)) if limit else ()
        missed = after != "0" and await self._events.is_before_all(after)
        return EventPage(events, events[-1].id if events else after, missed)

    async def _id_of(self, feed: str) -> str | None:
        return feed if is_id(text("feed", feed)) else await self._feeds.find(feed)


def text(name: str, value: object) -> str:
    """The argument `name`, which must be a text. Raises InvalidRequest."""
    try:
        if isinstance(value, str):
            value.encode()
            return value
    except UnicodeEncodeError:  # half of a character
        pass
    raise wrong(name, value, "a text")


def whole(name: str, value: object) -> int:
    """The argument `name`, which must be a whole number. Raises InvalidRequest."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return min(value, _MOST)
    raise wrong(name, value, "a whole number, 0 or more")


def _is_cursor(value: object) -> bool:
    if not isinstance(value, Cursor) or not isinstance(value.score, str) or not isinstance(value.item, str):
        return False
    return number(value.score) is not None and is_id(value.item)


def is_id(text: str) -> bool:
    """Whether `text` has the shape of an id."""
    return text.isascii() and text.isdecimal() and len(text) < 20


def identity_of(guid: str) -> str:
    """The form of a guid that distinguishes a feed's posts."""
    return identity(Entry(guid=guid))


def forms_of(guid: str) -> tuple[str, ...]:
    """The forms in which the store may have that guid of a feed."""
    return tuple(dict.fromkeys((guid, identity_of(guid))))


def _post(row: Mapping[str, str]) -> Post:
    saved = loads(row["saved"]) if "saved" in row else {}
    return Post(
        id=row["ID"],
        feed=row["feed"],
        guid=saved.get("guid") or row.get(WRITTEN_GUID) or row["guid"],
        timestamp=datetime.fromisoformat(saved.get("timestamp") or row["Published"]),
        discovered=_moment(row["discovered"]),
        updated=_moment(row["updated"]),
        item=orjson.loads(row["Data"]),
        fields=saved.get("fields", {}),
    )


def _moment(text: str) -> datetime:
    return datetime.fromtimestamp(float(text), UTC)
