"""The reading requests of native apps: tags, subscriptions, counts, streams and contents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import orjson

from microsub.base.digests import short_digest
from microsub.base.errors import InvalidRequest
from microsub.greader.api import MOST_BODY, NativeCall, NativeRoute, NativeTable, json_reply, text_reply
from microsub.greader.atom import CONTENT_TYPE, atom_of
from microsub.greader.contents import NativeContents
from microsub.greader.ids import (
    LABEL,
    OTHER,
    READING_LIST,
    STARRED,
    count,
    decimal,
    items_of,
    seconds,
    stream_of,
    streams_of,
)
from microsub.greader.others import OtherItems
from microsub.greader.streams import StreamQuery, Streams, label_names
from microsub.greader.turns import UserTurns
from microsub.redis.protocol import Redis
from microsub.redis.scripts import batches
from microsub.timelines import Arrival, ReaderViews, unread_by_channel
from microsub.web.headers import is_among
from microsub.web.responses import CORS, HttpReply

MOST_IDS = 200_000
MOST_CONTENTS = 10_000
"""Readrops asks for 2,500 and never for the next page."""
MOST_BYTES = 32 * 1024 * 1024
MOST_NAMED = 10_000
"""Items that one request may name."""
USUAL_IDS, USUAL_CONTENTS = 1000, 20
_IDS = 5000
_SECOND = 1_000_000
_BETWEEN = b",\n"
"""Between two items. No JSON of theirs has a line break."""


class NativeReading:
    """The reading requests of native apps."""

    def __init__(self, redis: Redis, streams: Streams, contents: NativeContents, reading: ReaderViews) -> None:
        self._redis = redis
        self._streams = streams
        self._contents = contents
        self._reading = reading
        self._others = OtherItems(redis, reading, streams)
        self._turns = UserTurns()

    def table(self) -> NativeTable:
        """The requests by name."""
        turns = self._turns
        return {
            "tag/list": NativeRoute(self.tags),
            "subscription/list": turns.route("lists", self.subscriptions),
            "unread-count": turns.route("lists", self.unread_counts),
            "stream/items/ids": turns.route("ids", self.ids),
            "stream/items/count": turns.route("ids", self.number),
            "stream/items/contents": replace(turns.route("contents", self.named), most_body=MOST_BODY),
            "stream/contents": turns.route("contents", self.page),
            "atom": turns.route("contents", self.atom),
        }

    async def tags(self, call: NativeCall) -> HttpReply:
        """Starred, and the user's channels as folders."""
        names = label_names(call.channels)
        ordered = [one.name for one in call.channels if names.get(one.name) == one.uid]
        tags = [{"id": STARRED}, *({"id": LABEL + name, "type": "folder"} for name in ordered)]
        return _validated(call, {"tags": tags})

    async def subscriptions(self, call: NativeCall) -> HttpReply:
        """The followed feeds, and the one of items of feeds that aren't followed, if there are any."""
        followed, by_id = await self._contents.followed(call.user, call.channels)
        uids = [channel.uid for channel in call.channels]
        listed, has_others = await asyncio.gather(
            self._contents.subscriptions(followed),
            self._others.exist(call.user, uids, frozenset(by_id), call.now),
        )
        if has_others:
            listed.append(self._contents.others(call.language))
        return _validated(call, {"subscriptions": listed})

    async def unread_counts(self, call: NativeCall) -> HttpReply:
        """The unread items of each feed and label, and of all, each item counted once; without those that have none."""
        user, labels = call.user, label_names(call.channels)
        uids = [channel.uid for channel in call.channels]
        (places, members), (_, by_id) = await asyncio.gather(
            unread_by_channel(self._redis, user, uids), self._contents.followed(user, call.channels)
        )
        listed = {READING_LIST: [*places], **{LABEL + name: members[uid] for name, uid in labels.items()}}
        for feed, items in (await self._reading.by_feed(places.keys(), [*by_id])).items():
            name = by_id[feed][0].id if feed in by_id else OTHER
            listed.setdefault(f"feed/{name}", []).extend(items)
        counts = [
            {"id": name, "count": len(items), "newestItemTimestampUsec": str(max(map(places.__getitem__, items)))}
            for name, items in listed.items()
            if items
        ]
        return json_reply({"max": len(places), "unreadcounts": counts})

    async def ids(self, call: NativeCall) -> HttpReply:
        """The ids of a stream's items, and nothing else of them: Readrops refuses more."""
        query = query_of(call, count(call.params.text("n"), USUAL_IDS, MOST_IDS))
        rows, more = await self._page(call, query)
        refs = []
        for some in batches(rows, _IDS):
            refs.append(",".join([f'{{"id":"{decimal(row.id)}"}}' for row in some]).encode())
            await asyncio.sleep(0)  # others' requests, which 200,000 ids would delay by half a second
        return json_reply(b'{"itemRefs":[%b]%b}' % (b",".join(refs), _more(query, more)))

    async def number(self, call: NativeCall) -> HttpReply:
        """The number of a stream's items."""
        rows, _ = await self._page(call, query_of(call, MOST_IDS))
        return text_reply(str(len(rows)))

    async def page(self, call: NativeCall) -> HttpReply:
        """A stream with its contents. A page of many large items ends earlier than asked for."""
        body = _opened(call, _name(call))
        return _closed(body, await self._filled(call, body))

    async def atom(self, call: NativeCall) -> HttpReply:
        """The same as an Atom document, without a continuation."""
        body = bytearray()
        await self._filled(call, body)
        document = await asyncio.to_thread(_atom, call, body)
        return HttpReply(document, [(b"content-type", CONTENT_TYPE), (b"cache-control", b"no-store"), *CORS])

    async def _filled(self, call: NativeCall, body: bytearray) -> bytes:
        """Append the contents of a stream's page; returns its continuation."""
        query = query_of(call, count(call.params.text("n"), USUAL_CONTENTS, MOST_CONTENTS))
        rows, more = await self._page(call, query)
        places = {row.id: row.position for row in rows}
        last = await self._fitting(call, list(places), body)
        return _more(query, places[last] if last and (more is not None or last != rows[-1].id) else more)

    async def _fitting(self, call: NativeCall, ids: Sequence[str], body: bytearray) -> str:
        """Append the contents of the items, and `_BETWEEN`.

        Returns the one with which they ended early to be `MOST_BYTES`; empty for none.
        """
        async for item, wire in self._contents.items(call.user, call.channels, ids, call.language):
            # One buffer grows: copies of some megabytes would take longer than what is in them.
            body += wire
            body += _BETWEEN
            if len(body) > MOST_BYTES:
                return item
        return ""

    async def named(self, call: NativeCall) -> HttpReply:
        """The contents of the named items, without unknown ones, and without the last ones of many large items.

        Apps ask for items that they miss again with their next sync; after an error they would repeat all.
        """
        named = call.params.many("i")
        if len(named) > MOST_NAMED:
            raise InvalidRequest(f"'i' names too many items: expected {MOST_NAMED} at most")
        body = _opened(call, READING_LIST)
        await self._fitting(call, items_of(named), body)
        return _closed(body, b"")

    async def _page(self, call: NativeCall, query: StreamQuery) -> tuple[list[Arrival], int | None]:
        return await self._streams.page(call.user, call.channels, query, call.now)


def _opened(call: NativeCall, name: str) -> bytearray:
    """The beginning of a reply with contents."""
    head = orjson.dumps({"direction": "ltr", "id": name, "updated": int(call.now)})
    return bytearray(b'%b,"items":[' % head[:-1])


def _closed(body: bytearray, more: bytes) -> HttpReply:
    if body.endswith(_BETWEEN):
        del body[-len(_BETWEEN) :]
    body += b"]%b}" % more
    return json_reply(body)


def _atom(call: NativeCall, items: bytearray) -> bytes:
    return atom_of(_name(call), _name(call), call.now, map(orjson.loads, items.split(_BETWEEN)[:-1]))


def query_of(call: NativeCall, most: int) -> StreamQuery:
    """The stream that a request names, and the part of it that it asks for. Raises InvalidRequest."""
    params = call.params
    since, before = seconds("ot", params.text("ot")), seconds("nt", params.text("nt"))
    query = StreamQuery(
        stream_of(_name(call)),
        most,
        params.text("r") == "o",
        (since or 0) * _SECOND,
        None if before is None else before * _SECOND,
        None,
        tuple(streams_of("it", params.many("it"))),
        tuple(streams_of("xt", params.many("xt"))),
    )
    after = params.text("c")
    if after is None:
        return query
    position, _, mark = after.partition("-")
    if not (position.isascii() and position.isdecimal() and len(position) <= 19 and mark == _mark(query)):
        raise InvalidRequest("'c' can't be used: expected a continuation of this stream")
    return replace(query, after=int(position))


def _name(call: NativeCall) -> str:
    return call.stream or call.params.text("s") or READING_LIST


def _mark(query: StreamQuery) -> str:
    """Tells streams apart: a continuation of another one would skip items."""
    parts = (query.stream, query.oldest_first, sorted(map(str, query.within)), sorted(map(str, query.without)))
    return short_digest(repr(parts).encode(), 4)


def _more(query: StreamQuery, position: int | None) -> bytes:
    return b"" if position is None else b',"continuation":"%d-%b"' % (position, _mark(query).encode())


def _validated(call: NativeCall, value: object) -> HttpReply:
    """A list with the digest of its very content, or 304: NetNewsWire skips its sync then.

    There is no time of the last change: several can happen within a second, and feeds rename themselves at any time.
    """
    body = orjson.dumps(value)
    tag = f'"{short_digest(body)}"'
    headers = [
        (b"content-type", b"application/json; charset=utf-8"),
        (b"cache-control", b"private, no-cache"),
        (b"etag", tag.encode()),
        *CORS,
    ]
    return HttpReply(b"", headers, 304) if is_among(tag, call.known) else HttpReply(body, headers)
