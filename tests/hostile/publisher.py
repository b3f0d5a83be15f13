"""A publisher that writes bytes, not HTTP: the behaviour of a case is a function of the connection."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from tests.support import web
from tests.support.web import Answer, Asked, Publisher

__all__ = ["Act", "Asked", "Publisher", "chunked", "publisher"]

Act = Callable[[Asked], Awaitable[None]]


@asynccontextmanager
async def publisher(
    acts: Mapping[str, Act], *, good: bytes, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Publisher]:
    """A running publisher on 127.0.0.1. `acts` has the behaviour of each path; other paths serve a valid feed."""
    async with web.publisher(tls=tls) as site:
        site.handlers.update(acts)
        site.otherwise = Answer(good, headers=[("Content-Type", "application/rss+xml")])
        yield site


def chunked(parts: Iterable[bytes]) -> bytes:
    """Parts as the chunks of a body, without the last chunk."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
