"""A server on a unix socket that says what a test tells it to: for replies that a real Redis is hard to bring to."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(behaviour: Behaviour) -> AsyncIterator[str]:
    """The URL of a server that treats every connection as `behaviour` does, and then closes it."""
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await behaviour(reader, writer)
        except ConnectionError:
            return
        finally:
            writer.close()

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "s")
        server = await asyncio.start_unix_server(connected, path)
        try:
            yield f"unix://{path}"
        finally:
            server.close()
            for writer in writers:
                writer.close()
