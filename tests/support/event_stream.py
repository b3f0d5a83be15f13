"""Clients of event streams that parse as in the HTML standard, in this process or by HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
from starlette.types import ASGIApp, Message

from tests.support.reader import Reader

PATIENCE = 10.0


@dataclass(frozen=True)
class Heard:
    """One event as a browser passes it to its page; `id` is the stream's last event id."""

    name: str
    data: Any
    id: str


@dataclass
class EventParser:
    """Parses bytes into events (HTML standard, 9.2.6)."""

    last_id: str = ""
    comments: int = 0
    retry: int = 0
    _rest: bytes = b""
    _name: str = ""
    _data: list[str] = field(default_factory=list)
    _id: str = ""

    def feed(self, data: bytes) -> list[Heard]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [heard for line in lines if (heard := self._line(line.decode())) is not None]

    def _line(self, line: str) -> Heard | None:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._name = value
            elif name == "data":
                self._data.append(value)
            elif name == "id":
                self._id = value
            elif name == "retry":
                self.retry = int(value)
            else:
                assert not name, f"a field that the standard doesn't know: {line}"
                self.comments += 1
            return None
        self.last_id = self._id or self.last_id
        name, lines, is_place = self._name, self._data, bool(self._id)
        self._name, self._data, self._id = "", [], ""
        if not lines:
            assert not is_place, "some libraries take an id without data for an empty message"
            return None
        assert len(lines) == 1, "one line of data for each event"
        return Heard(name, json.loads(lines[0]), self.last_id)


class EventStream:
    """One open stream; while `reading` is cleared, it reads nothing."""

    def __init__(
        self,
        app: ASGIApp,
        reader: Reader,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        query = urlencode({"action": "events", **(params or {})}, doseq=True)
        sent = {"authorization": f"Bearer {reader.token}", **(headers or {})} if reader.token else dict(headers or {})
        self.scope = {
            "type": "http", "method": "GET", "path": reader.endpoint, "query_string": query.encode(),
            "http_version": "1.1", "scheme": "http", "server": ("server.test", 80), "client": ("127.0.0.1", 1),
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        }  # fmt: skip
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.parser = EventParser()
        self.reading = asyncio.Event()
        self.reading.set()
        self.waiting = 0
        self._events: asyncio.Queue[Heard] = asyncio.Queue()
        self._started = asyncio.Event()
        self._left = asyncio.Event()
        self._asked = False
        self.task = asyncio.create_task(app(self.scope, self._receive, self._send))  # type: ignore[arg-type]

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._started.set()
            return
        self.waiting += 1
        await self.reading.wait()
        self.waiting -= 1
        self.body += message["body"]
        if self.status == 200:
            for heard in self.parser.feed(message["body"]):
                self._events.put_nowait(heard)

    async def started(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._started.wait()

    async def next(self, *, pings: bool = False) -> Heard:
        """The next event, without heartbeats."""
        async with asyncio.timeout(PATIENCE):
            while True:
                heard = await self._events.get()
                if pings or heard.name != "ping":
                    return heard

    async def until(self, name: str, **data: Any) -> list[Heard]:
        """All events up to the first one with this name and these values in its data."""
        found = [await self.next()]
        while found[-1].name != name or {**found[-1].data, **data} != found[-1].data:
            found.append(await self.next())
        return found

    async def rest(self) -> list[Heard]:
        """All events that have arrived but weren't read."""
        return [self._events.get_nowait() for _ in range(self._events.qsize())]

    async def end(self) -> None:
        """Wait until the server ends the stream."""
        async with asyncio.timeout(PATIENCE):
            await self.task

    async def leave(self) -> None:
        self._left.set()
        self.reading.set()
        await self.end()


@asynccontextmanager
async def listening(
    app: ASGIApp, reader: Reader, headers: Mapping[str, str] | None = None, **params: Any
) -> AsyncIterator[EventStream]:
    """An open stream of the reader's events, after `started`."""
    stream = EventStream(app, reader, headers, params)
    try:
        await stream.started()
        if stream.status == 200:
            assert (await stream.next()).name == "started"
        yield stream
    finally:
        await stream.leave()


async def _heard(reply: httpx.Response) -> AsyncIterator[Heard]:
    parser = EventParser()
    async for data in reply.aiter_bytes():
        for heard in parser.feed(data):
            yield heard


@asynccontextmanager
async def listening_by_http(reader: Reader, **params: Any) -> AsyncIterator[AsyncIterator[Heard]]:
    """The same by HTTP: all events after `started`."""
    query = {"action": "events", **params}
    async with reader.client.stream("GET", reader.endpoint, params=query, headers=reader.headers) as reply:
        assert reply.status_code == 200, await reply.aread()
        events = _heard(reply)
        assert (await anext(events)).name == "started"
        yield events


async def next_item(events: AsyncIterator[Heard]) -> str:
    """The name of the next post."""
    async with asyncio.timeout(PATIENCE):
        while (heard := await anext(events)).name != "new item":
            pass
    name: str = heard.data["item"]["name"]
    return name
