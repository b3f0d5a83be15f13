"""Topics: the documents of this server that can be subscribed to.

An output feed is a topic in each of its formats, at its own address. A channel has a topic once its user creates it: a
JSON Feed of its newest items, at an address that can't be guessed. The stored posts of a feed are a topic if the admin
allows it and nothing in the feed's address looks like a secret.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl, quote

from microsub.base.digests import short_digest
from microsub.base.errors import RequestError
from microsub.base.locks import KeyedLocks
from microsub.feeds import Feeds, OutputAddress, OutputFeed, OutputStore, is_public
from microsub.formats.documents import FORMATS
from microsub.formats.documents.values import FeedDocument
from microsub.hub.store import NEWEST, PATH, ChannelTopics, PostsTopic
from microsub.model.jf2 import Entry
from microsub.posts import Items
from microsub.web.paths import HUB, OUTPUTS

_FEED = "/feed.json"


class TopicDocument(NamedTuple):
    """A topic's present content; `address` is the one in its `rel=self`."""

    version: str
    address: str
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class OutputTopic:
    """An output feed in one format."""

    feed: OutputFeed
    form: str

    @property
    def owner(self) -> str:
        """The owner of its subscriptions."""
        return f"user {self.feed.user}"

    @property
    def source(self) -> str:
        """The source of its version: all formats of one feed have the same."""
        return self.feed.id


Topic = OutputTopic | PostsTopic


class OutputDocuments(Protocol):
    """The documents of output feeds."""

    async def refresh(self, feed: OutputFeed, now: float) -> None:
        """Bring the feed up to date with its source."""

    async def whole(self, feed: OutputFeed, base: str, now: float, *, stylesheet: str) -> FeedDocument:
        """The feed's document at a Unix time, for the server at `base`."""

    async def entries(self, ids: Sequence[str], user: str = "") -> Mapping[str, Entry]:
        """The posts of items, as documents of this user list them; of nobody's, without one."""


class Topics:
    """Finds topics by their URL on the server at `base`, and generates their documents. Times are Unix seconds.

    `stylesheet` is the path of the pages' style. `fill` adds posts that wait for the timelines of an absent user. With
    `stored_feeds`, stored feeds are topics too. `any_port`: some callbacks are asked at other ports than 80 and 443.
    """

    def __init__(
        self,
        base: str,
        channels: ChannelTopics,
        outputs: OutputStore,
        contents: OutputDocuments,
        feeds: Feeds,
        items: Items,
        *,
        stylesheet: str = "",
        fill: Callable[[str, str, float], Awaitable[object]] | None = None,
        stored_feeds: bool = False,
        any_port: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.hub = f"{base}{HUB}"
        self.any_port = any_port
        self._base = base
        self.channels = channels
        self._outputs = outputs
        self._contents = contents
        self._feeds = feeds
        self._items = items
        self._stylesheet = stylesheet
        self._fill = fill
        self._stored_feeds = stored_feeds
        self._clock = clock
        self._turns = KeyedLocks()

    async def find(self, url: str) -> Topic | None:
        """The topic at `url`, or None."""
        return await self.find_at(url.removeprefix(self._base)) if url.startswith(f"{self._base}/") else None

    async def find_at(self, place: str) -> Topic | None:
        """The topic at a path and query, or None."""
        path, _, query = place.partition("?")
        if path == f"{PATH}{_FEED}":
            return await self._stored(query)
        if query:
            return None
        if path.startswith(f"{PATH}/"):
            return await self.channels.find(path.removeprefix(PATH))
        return await self._output(path) if path.startswith(f"{OUTPUTS}/") else None

    async def refresh(self, topic: Topic) -> None:
        """Bring the topic up to date with its source."""
        match topic:
            case OutputTopic(feed=feed):
                await self._contents.refresh(feed, self._clock())
            case PostsTopic(channel=(user, uid)) if self._fill is not None:
                await self._fill(user, uid, self._clock())

    async def version(self, topic: Topic) -> str:
        """A text that differs whenever the topic's document has news. Raises NotFound if the topic is gone.

        For an output feed, only new publications are news; items that expire aren't.
        """
        if not isinstance(topic, OutputTopic):
            return (await self._listed(topic))[1]
        feed = await self._outputs.get(topic.feed.user, topic.feed.name)
        return f"{feed.id} {feed.editions} {feed.changed}"

    async def document(self, topic: Topic) -> TopicDocument:
        """The document of a topic, byte for byte as at its address. Raises NotFound if the topic is gone.

        An owner's documents are generated one after the other, so that a hundred at once don't use all threads.
        """
        async with self._turns.of(topic.owner):
            return await self._document(topic)

    async def _document(self, topic: Topic) -> TopicDocument:
        version = await self.version(topic)
        if isinstance(topic, OutputTopic):
            feed = await self._outputs.get(topic.feed.user, topic.feed.name)
            whole = self._contents.whole(feed, self._base, self._clock(), stylesheet=self._stylesheet)
            made, form = await whole, topic.form
        else:
            ids, _ = await self._listed(topic)
            made, form = await self._feed_document(topic, ids), "json"
        body = await asyncio.to_thread(FORMATS[form].write, made)
        return TopicDocument(version, made.addresses[form], FORMATS[form].content_type, body)

    async def _listed(self, topic: PostsTopic) -> tuple[Sequence[str], str]:
        """The ids that a document lists, and its version, which is derived from the posts' hashes."""
        if topic.channel is not None:
            ids = await self.channels.newest(*topic.channel)
        else:
            ids = await self._items.newest(topic.feed, NEWEST)
        hashes = await self._items.fields(ids, ("hash",))
        marks = [item.encode() + b" " + (hash_ or b"") for item, (hash_,) in zip(ids, hashes, strict=True)]
        return ids, short_digest(b"\n".join(marks))

    async def _feed_document(self, topic: PostsTopic, ids: Sequence[str]) -> FeedDocument:
        entries = await self._contents.entries(ids, topic.channel[0] if topic.channel is not None else "")
        rows = await self._items.fields(ids, ("updated", "score"))
        moments = [float(value) for row in rows for value in row[:1] if value]
        return FeedDocument(
            id=f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, topic.address)}",
            title=topic.title,
            addresses={"json": topic.address, "html": topic.home},
            updated=datetime.fromtimestamp(max(moments, default=0.0), UTC),
            entries=tuple(entries[item] for item in ids if item in entries),
            hubs=(self.hub,),
        )

    async def _output(self, path: str) -> OutputTopic | None:
        address = OutputAddress.of(path)
        if address is None:
            return None
        try:
            if address.secret:
                found = await self._outputs.find(address.user, address.secret)
            else:
                found = await self._outputs.find_public(address.user, address.name)
        except RequestError:
            return None
        return OutputTopic(found, address.form)

    async def _stored(self, query: str) -> PostsTopic | None:
        asked = dict(parse_qsl(query)).get("url", "")
        if not self._stored_feeds or not is_public(asked):
            return None
        found = await self._feeds.find(asked)
        record = None if found is None else await self._feeds.get(found)
        if record is None or record.gone or not is_public(record.url):
            return None
        address = f"{self._base}{PATH}{_FEED}?url={quote(record.url, safe='')}"
        return PostsTopic(address, record.title or record.url, record.home or record.url, feed=record.id)
