"""The reading requests of native apps: tags, subscriptions, counts, streams and contents."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from email.utils import formatdate

import orjson

from microsub.base.digests import short_digest
from microsub.base.errors import InvalidRequest
from microsub.greader.api import NativeCall, NativeRoute, NativeTable, json_reply, text_reply
from microsub.greader.contents import NativeContents
from microsub.greader.ids import (
    LABEL,
    OTHER,
    READING_LIST,
    STARRED,
    StreamName,
    count,
    decimal,
    items_of,
    seconds,
    stream_of,
)
from microsub.greader.streams import StreamPage, StreamQuery, Streams, label_names
from microsub.redis.protocol import Redis
from microsub.timelines import ReaderViews, arrivals_in, in_channels
from microsub.web.responses import CORS, HttpReply

MOST_IDS = 200_000
MOST_CONTENTS = 1000
MOST_NAMED = 10_000
"""Items that one request may name."""
USUAL_IDS, USUAL_CONTENTS = 1000, 20
_SECOND = 1_000_000


class NativeReading:
    """The reading requests of native apps."""

    def __init__(self, redis: Redis, streams: Streams, contents: NativeContents, reading: ReaderViews) -> None:
        self._redis = redis
        self._streams = streams
        self._contents = contents
        self._reading = reading

    def table(self) -> NativeTable:
        """The requests by name."""
        return {
            "tag/list": NativeRoute(self.tags),
            "subscription/list": NativeRoute(self.subscriptions),
            "unread-count": NativeRoute(self.unread_counts),
            "stream/items/ids": NativeRoute(self.ids),
            "stream/items/count": NativeRoute(self.number),
            "stream/items/contents": NativeRoute(self.named),
            "stream/contents": NativeRoute(self.page),
        }

    async def tags(self, call: NativeCall) -> HttpReply:
        """Starred, and the user's channels as folders."""
        names = label_names(call.channels)
        ordered = [one.name for one in call.channels if names.get(one.name) == one.uid]
        tags = [{"id": STARRED}, *({"id": LABEL + name, "type": "folder"} for name in ordered)]
        return _validated(call, {"tags": tags})

    async def subscriptions(self, call: NativeCall) -> HttpReply:
        """The followed feeds, and the one of items of feeds that aren't followed."""
        followed = await self._contents.followed(call.user, call.channels)
        listed = [*(self._contents.subscription(one) for one in followed.values()), self._contents.others]
        return _validated(call, {"subscriptions": listed})

    async def unread_counts(self, call: NativeCall) -> HttpReply:
        """The unread items of each feed and label, and of all, each item counted once; without those that have none."""
        user, labels = call.user, label_names(call.channels)
        places = await arrivals_in(self._redis, user, [channel.uid for channel in call.channels], "unread")
        ids = list(places)
        followed, feeds, members = await asyncio.gather(
            self._contents.followed(user, call.channels),
            self._reading.feeds_of(ids),
            asyncio.gather(*(in_channels(self._redis, user, [uid], ids, "posts") for uid in labels.values())),
        )
        found: defaultdict[str, list[int]] = defaultdict(list)
        for item, feed in zip(ids, feeds, strict=True):
            name = followed[feed].subscription.id if feed in followed else OTHER
            found[f"feed/{name}"].append(places[item])
        for name, holders in zip(labels, members, strict=True):
            found[LABEL + name] += [places[item] for item in holders]
        found[READING_LIST] = list(places.values())
        counts = [
            {"id": name, "count": len(at), "newestItemTimestampUsec": str(max(at))} for name, at in found.items() if at
        ]
        return json_reply({"max": len(ids), "unreadcounts": counts})

    async def ids(self, call: NativeCall) -> HttpReply:
        """The ids of a stream's items, and nothing else of them: Readrops refuses more."""
        page = await self._page(call, count(call.params.text("n"), USUAL_IDS, MOST_IDS))
        refs = b",".join(b'{"id":"%b"}' % decimal(row.id).encode() for row in page.rows)
        return json_reply(b'{"itemRefs":[%b]%b}' % (refs, _continuation(page)))

    async def number(self, call: NativeCall) -> HttpReply:
        """The number of a stream's items."""
        return text_reply(str(len((await self._page(call, MOST_IDS)).rows)))

    async def page(self, call: NativeCall) -> HttpReply:
        """A stream with its contents."""
        page = await self._page(call, count(call.params.text("n"), USUAL_CONTENTS, MOST_CONTENTS))
        name = call.stream or call.params.text("s") or READING_LIST
        return await self._with_contents(call, name, [row.id for row in page.rows], _continuation(page))

    async def named(self, call: NativeCall) -> HttpReply:
        """The contents of the named items; unknown ones are left out."""
        named = call.params.many("i")
        if len(named) > MOST_NAMED:
            raise InvalidRequest(f"'i' names too many items: expected {MOST_NAMED} at most")
        return await self._with_contents(call, READING_LIST, items_of(named), b"")

    async def _with_contents(self, call: NativeCall, name: str, ids: Sequence[str], more: bytes) -> HttpReply:
        items = b",".join([item async for item in self._contents.items(call.user, call.channels, ids)])
        head = orjson.dumps({"direction": "ltr", "id": name, "updated": int(call.now)})[:-1]
        return json_reply(b'%b,"items":[%b]%b}' % (head, items, more))

    async def _page(self, call: NativeCall, most: int) -> StreamPage:
        return await self._streams.page(call.credential, call.channels, query_of(call, most), call.now)


def query_of(call: NativeCall, most: int) -> StreamQuery:
    """The stream that a request names, and the part of it that it asks for. Raises InvalidRequest."""
    params = call.params
    since, before = seconds("ot", params.text("ot")), seconds("nt", params.text("nt"))
    after = params.text("c")
    if after is not None and not (after.isascii() and after.isdecimal() and len(after) <= 19):
        raise InvalidRequest("'c' can't be used: expected a continuation of this server")
    return StreamQuery(
        stream_of(call.stream or params.text("s") or READING_LIST),
        most,
        params.text("r") == "o",
        (since or 0) * _SECOND,
        None if before is None else before * _SECOND,
        None if after is None else int(after),
        _known(params.many("it")),
        _known(params.many("xt")),
    )


def _known(texts: Sequence[str]) -> tuple[StreamName, ...]:
    return tuple(name for text in texts if (name := stream_of(text)) is not None)


def _continuation(page: StreamPage) -> bytes:
    return b"" if page.more is None else b',"continuation":"%d"' % page.more


def _validated(call: NativeCall, value: object) -> HttpReply:
    """A list with validators of its very content, or 304: NetNewsWire skips its sync then."""
    body = orjson.dumps(value)
    tag = f'"{short_digest(body)}"'
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"cache-control", b"private, no-cache"),
        (b"etag", tag.encode()),
        (b"last-modified", formatdate(call.now, usegmt=True).encode()),
        *CORS,
    ]
    known = {one.strip().removeprefix("W/") for one in call.known.split(",")}
    return HttpReply(b"", headers, 304) if tag in known else HttpReply(body, headers)
