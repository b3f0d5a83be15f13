"""The demo's web server: `documents` over HTTP with validators, as a small ASGI application of its own.

Conditional requests follow RFC 9110, section 13: `If-None-Match` decides where it is given, else `If-Modified-Since`.
The `ETag` is a hash of the body, `Last-Modified` the time of the newest post or edit.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

import uvicorn

from microsub.demo.backend import write_backend
from microsub.demo.documents import Document, document
from microsub.demo.posts import SEED

__all__ = ["Publisher", "app", "serve", "write_backend"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]
"""Status, headers, body."""


class Publisher:
    """An ASGI application that publishes the demo's blogs.

    `base` is its own address without a slash at its end, for the absolute URLs in feeds; an empty one takes the
    address at which the request came in. `clock` returns Unix seconds. `requests` counts the answers per path and
    status, so that one can see how it is polled.
    """

    def __init__(self, base: str = "", clock: Callable[[], float] = time.time, seed: int = SEED) -> None:
        self.base = base
        self.clock = clock
        self.seed = seed
        self.requests: dict[tuple[str, int], int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; anything but HTTP is left alone."""
        if scope["type"] != "http":
            return
        status, headers, body = self.answer(scope["method"], scope["path"], _headers(scope), _address(scope))
        key = (scope["path"], status)
        if status != 404:
            self.requests[key] = self.requests.get(key, 0) + 1
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def answer(self, method: str, path: str, request: Mapping[str, str], address: str) -> Answer:
        """What to say to a request; its header names are in lower case, `address` is where it came in."""
        if method not in {"GET", "HEAD"}:
            return 405, [(b"allow", b"GET, HEAD")], b""
        found = document(path, self.clock(), self.base or address, self.seed)
        if found is None:
            return 404, [(b"content-type", b"text/plain")], b"nothing here (yet)\n"
        etag = f'"{hashlib.blake2s(found.body, digest_size=12).hexdigest()}"'
        validators = [(b"etag", etag.encode()), (b"last-modified", _http_date(found.changed))]
        if _is_fresh(request, etag, found.changed):
            return 304, validators, b""
        return 200, [*validators, *_entity(found)], found.body


def app() -> Publisher:
    """The publisher as an ASGI application for a server of the caller's own."""
    return Publisher()


def _address(scope: Scope) -> str:
    host, port = scope.get("server") or ("127.0.0.1", 80)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _http_date(instant: datetime) -> bytes:
    return format_datetime(instant, usegmt=True).encode()


def _entity(found: Document) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", found.content_type.encode()),
        (b"content-length", str(len(found.body)).encode()),
        (b"cache-control", b"no-cache"),
    ]


def _is_fresh(request: Mapping[str, str], etag: str, changed: datetime) -> bool:
    known = request.get("if-none-match")
    if known is not None:
        tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
        return "*" in tags or etag in tags
    since = request.get("if-modified-since")
    if since is None:
        return False
    try:
        return changed <= parsedate_to_datetime(since)
    except (ValueError, TypeError):  # an unreadable or zoneless date counts as absent
        return False


class _QuietServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the process that it is a guest in."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


@asynccontextmanager
async def serve(host: str = "127.0.0.1", port: int = 0, seed: int = SEED) -> AsyncIterator[Publisher]:
    """Run the publisher in the running event loop until the block is left; port 0 takes a free one.

    The value is the publisher, whose `base` says where it listens. Raises OSError when the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)
    name = f"[{host}]" if ":" in host else host
    publisher = Publisher(f"http://{name}:{listener.getsockname()[1]}", seed=seed)
    config = uvicorn.Config(publisher, lifespan="off", log_config=None, log_level="warning", access_log=False)
    server = _QuietServer(config)
    task = asyncio.create_task(server.serve(sockets=[listener]), name="demo publisher")
    try:
        yield publisher
    finally:
        server.should_exit = True
        await task
        listener.close()
