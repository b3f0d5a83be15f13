"""The `events` action: what changes in a user's channels, as Server-Sent Events.

Spec: https://html.spec.whatwg.org/multipage/server-sent-events.html; the events have the names that Ekstereye reads.
Counts are absolute, so an app that has missed events is correct again after the next one.

A stream stores only its position: changes are read from Redis when they can be sent, so a client that doesn't read
costs no more than its connection's buffers, and the web port closes its connection (`cli.serving.webport`).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress

import orjson
from starlette.types import Receive, Send

from microsub.api.channels import ChannelList, channel_to_wire
from microsub.base.errors import (
    InsufficientScope,
    NotFound,
    ProviderUnavailable,
    RequestError,
    StoreError,
    TooManyRequests,
)
from microsub.base.metrics import EVENT_STREAMS
from microsub.base.rate_limits import Slot, public_network
from microsub.model.reader import GLOBAL, READ, Channel
from microsub.redis.protocol import Redis
from microsub.timelines import (
    EVENTS_AT_ONCE,
    EVENTS_IN_ALL,
    EVENTS_OF_NETWORK,
    EVENTS_OF_TOKEN,
    EVENTS_OF_USER,
    ITEMS,
    KEPT_SECONDS,
    Channels,
    EventPosition,
    Listeners,
    LiveEvent,
    ReaderViews,
    open_events,
    read_events,
)
from microsub.web.actions import StreamAction, StreamCall, Table
from microsub.web.params import Params
from microsub.web.responses import CORS, Header, HttpReply, client_left

PING_EVERY = 15.0
"""Seconds of silence after which a client is sent a `ping`; proxies close a silent stream after a minute."""
PIECE = 16 * 1024
"""Bytes after which a piece is sent."""
ITEMS_AT_ONCE = 10
STORE_PAUSE = 1.0
RECONNECT = range(1_000, 4_001)
"""Milliseconds after which a client reconnects: random, so that they don't all do so at the same moment."""

HEADERS: list[Header] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    *CORS,
]
_COMMENT = b": ping\n"
"""Before each ping, for people who look at the bytes."""


class _Stream:
    """One open stream, and the position up to which its client has been sent events. `only`: these channels, or all."""

    def __init__(
        self,
        redis: Redis,
        reading: ReaderViews,
        listeners: Listeners,
        listed: ChannelList,
        clock: Callable[[], float],
        call: StreamCall,
        only: frozenset[str],
    ) -> None:
        self._redis = redis
        self._reading = reading
        self._listeners = listeners
        self._listed = listed
        self._clock = clock
        self._call = call
        self._only = only
        self._position = EventPosition("")
        self._kept_until = 0.0
        self._last_sent = 0.0

    async def write(self, receive: Receive, send: Send) -> None:
        """Send events until the client disconnects, its token ends, or the server stops."""
        left = asyncio.ensure_future(client_left(receive))
        listeners, user = self._listeners, self._call.user
        news = listeners.news(user)
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        try:
            await self._start(send)
            while not (left.done() or listeners.stopped):
                if news.done():
                    news = listeners.news(user)
                if await self._go_on(send):
                    continue
                silence = asyncio.get_running_loop().time() - self._last_sent
                if silence >= PING_EVERY:
                    # The position may be behind events that this client doesn't get.
                    await self._send(send, _COMMENT + _block("ping", b"{}", self._position))
                    silence = 0.0
                await asyncio.wait(
                    [left, news],
                    timeout=min(listeners.patience, PING_EVERY - silence),
                    return_when=asyncio.FIRST_COMPLETED,
                )
        except (RequestError, ProviderUnavailable, StoreError):
            pass  # the client learns the reason when it reconnects
        finally:
            left.cancel()
            listeners.forget(user, news)
        with suppress(RuntimeError):  # if the client has disconnected
            await send({"type": "http.response.body", "body": b""})

    async def _start(self, send: Send) -> None:
        """Send the client's position, and continue there; or from now on, if those events aren't stored any more."""
        wanted = self._call.position
        self._position = await self._open()
        state = await self._channels()
        position = EventPosition.of(wanted) if wanted else self._position
        is_kept = not wanted or (position is not None and await self._read(position) is not None)
        if is_kept and position is not None:
            self._position = position
            head = _block("started", state, position)
        else:
            head = _block("started", state) + _block("resync", state, self._position)
        await self._send(send, b"retry: %d\n" % secrets.choice(RECONNECT) + head)

    async def _go_on(self, send: Send) -> bool:
        """Send new events; returns whether there may be more already."""
        try:
            if self._clock() >= self._kept_until:
                await self._open()
            found = await self._read(self._position)
            if found is None:
                self._position = await self._open()
                await self._send(send, _block("resync", await self._channels(), self._position))
                return True
            events, channels = found
            if events:
                async for piece in self._pieces(events, channels):
                    await self._send(send, piece)
        except StoreError:
            await asyncio.sleep(STORE_PAUSE)  # the position is unchanged, so nothing is lost
            return False
        return len(events) == EVENTS_AT_ONCE

    async def _send(self, send: Send, piece: bytes) -> None:
        self._last_sent = asyncio.get_running_loop().time()
        await send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _open(self) -> EventPosition:
        self._kept_until = self._clock() + KEPT_SECONDS / 6
        return await open_events(self._redis, self._call.user)

    async def _channels(self) -> bytes:
        """The reply to action=channels; it adds posts that wait for timelines."""
        return (await self._listed(Params({}), self._call.credential, self._clock()))[1]

    async def _read(self, position: EventPosition) -> tuple[Sequence[LiveEvent], Mapping[str, Channel]] | None:
        """The events after a position, and their channels, as `read_events` gives them.

        Raises RequestError if the token doesn't allow it any more.
        """
        now = self._clock()
        async with self._listeners.turns:
            try:
                found = await read_events(self._redis, self._call.credential, position, now)
            except RequestError:
                await self._call.check(now)
                found = await read_events(self._redis, self._call.credential, position, now)
        if found is None:
            return None
        grant, events, channels = found
        if READ not in grant.scopes:
            raise InsufficientScope(READ)
        await self._reading.has_caught_up(grant, GLOBAL, now)
        return events, channels

    async def _pieces(self, events: Sequence[LiveEvent], channels: Mapping[str, Channel]) -> AsyncIterator[bytes]:
        """The pieces to send for these events; each piece advances the position."""
        parts: list[bytes] = []
        size = 0
        async for position, block in self._blocks(events, channels):
            parts.append(block)
            size += len(block)
            if size >= PIECE:
                self._position = position
                yield b"".join(parts)
                parts, size = [], 0
        self._position = EventPosition(events[-1].id)
        if parts:
            yield b"".join(parts)

    async def _blocks(
        self, events: Sequence[LiveEvent], channels: Mapping[str, Channel]
    ) -> AsyncIterator[tuple[EventPosition, bytes]]:
        """The events as they are sent, each with the position after it.

        A channel's unread count is sent once, with its last event here.
        """
        style = await self._reading.style(self._call.user)
        last = {event.channel: event.id for event in events if event.name == ITEMS}
        for event in events:
            channel = channels.get(event.channel)
            if self._only and event.channel not in self._only:
                continue
            position = EventPosition(event.id)
            if event.name == "delete channel":
                yield position, _block(event.name, orjson.dumps({"uid": event.channel}), position)
            if channel is None:
                continue
            wire = channel_to_wire(channel, style)
            if event.name in ("new channel", "update channel"):
                order = {"order": event.order} if event.order else {}
                yield position, _block(event.name, orjson.dumps({"channel": wire, **order}), position)
            if event.name == ITEMS:
                async for item_position, block in self._items(event, channel):
                    yield item_position, block
                if last[event.channel] == event.id:
                    yield position, _block("new item in channel", orjson.dumps(wire), position)

    async def _items(self, event: LiveEvent, channel: Channel) -> AsyncIterator[tuple[EventPosition, bytes]]:
        head = b'{"channel":"%b","item":' % channel.uid.encode()
        rows = event.came
        while rows:
            items = await self._reading.wire_items(self._call.user, rows[:ITEMS_AT_ONCE], channel.name)
            for row, item in zip(rows, items, strict=False):
                if item is not None:
                    position = EventPosition(event.id, row.id)
                    yield position, _block("new item", head + item + b"}", position)
            rows = rows[len(items) :]


def _block(name: str, data: bytes, position: EventPosition | None = None) -> bytes:
    """One event; `data` is JSON as orjson writes it, which has no line breaks."""
    # An `id:` line on its own is no event by the standard, but some libraries hand it out as an empty message.
    line = b"id: %b\n" % str(position).encode() if position else b""
    return b"event: %b\ndata: %b\n%b\n" % (name.encode(), data, line)


class EventActions:
    """The action `events`. `listed` is the reply to `channels`."""

    def __init__(
        self,
        redis: Redis,
        channels: Channels,
        reading: ReaderViews,
        listeners: Listeners,
        listed: ChannelList,
        clock: Callable[[], float],
    ) -> None:
        self._redis = redis
        self._channels = channels
        self._reading = reading
        self._listeners = listeners
        self._listed = listed
        self._clock = clock

    def table(self) -> Table:
        """The actions by what selects them."""
        return {("GET", "events", ""): StreamAction("read", self.opened)}

    async def opened(self, call: StreamCall) -> HttpReply:
        """The stream of the token's user, for all channels or those in `channel`."""
        chosen = call.params.many("channel")
        only = frozenset() if GLOBAL in chosen else frozenset(chosen)
        (uids,) = await self._channels.uids([call.user])
        if unknown := sorted(only.difference(uids)):
            raise NotFound(f"there is no channel '{unknown[0][:80]}'")
        slots: list[Slot] = [
            (EVENTS_OF_TOKEN, call.credential.digest),
            (EVENTS_OF_USER, call.user),
            (EVENTS_IN_ALL, ""),
        ]
        if network := public_network(call.network):
            slots.append((EVENTS_OF_NETWORK, network))
        limits = self._listeners.limits
        for limit, subject in slots:
            if not limits.has_room(limit, subject):
                raise TooManyRequests(
                    f"too many {limit.what}: {limit.most} for each {limit.per}, close some of them", 60
                )
        stream = _Stream(self._redis, self._reading, self._listeners, self._listed, self._clock, call, only)

        async def write(receive: Receive, send: Send) -> None:
            leave = limits.take(slots)
            EVENT_STREAMS.inc()
            try:
                await stream.write(receive, send)
            finally:
                EVENT_STREAMS.dec()
                leave()

        return HttpReply(b"", HEADERS, write=write)
