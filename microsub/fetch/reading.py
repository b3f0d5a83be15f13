"""A reply's body as it comes, within its limit and the room that the process has for bodies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from microsub.fetch.body import Body
from microsub.fetch.room import Room, Share
from microsub.fetch.transport import Reply
from microsub.fetch.values import HopError

_YIELD_EVERY = 64
"""Pieces of a body between two looks at what else there is to do: many may lie ready in one read from the network."""

_LONGEST_WAIT_FOR_ROOM = 60.0


async def read_body(
    reply: Reply, fields: Mapping[str, str], limit: int, room: Room, clock: asyncio.Timeout
) -> tuple[bytes, Share]:
    """The whole body, `limit` bytes after decompression at most, and the room that it takes. Raises HopError.

    While there is no room, `clock` stands still.
    """
    body = Body(fields.get("content-encoding"), limit)
    share = room.share()
    try:
        async for part in reply.parts():
            before = body.length
            body.feed(part)
            await _wait_for_room(share, body.length - before, clock)
            if body.parts % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        share.settle()
        return body.finish(), share
    except BaseException:
        share.close()
        raise


async def _wait_for_room(share: Share, size: int, clock: asyncio.Timeout) -> None:
    """Take room for what has arrived. Waiting is our affair: it doesn't count against the publisher's time."""
    if share.fits(size):
        await share.grow(size)
        return
    end, start = clock.when(), time.monotonic()
    clock.reschedule(None)
    try:
        async with asyncio.timeout(_LONGEST_WAIT_FOR_ROOM):
            await share.grow(size)
    except TimeoutError:
        raise HopError("timeout", "there was no memory free for this document; it will be tried again") from None
    finally:
        clock.reschedule(None if end is None else end + time.monotonic() - start)
