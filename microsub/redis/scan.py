"""Long keys read in parts, so that no command blocks Redis for more than a few milliseconds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal

from microsub.redis.protocol import Command, Redis
from microsub.redis.replies import fields, texts
from microsub.redis.scripts import BATCH, batches

ScanVerb = Literal["HSCAN", "SSCAN", "ZSCAN"]

_COMMANDS, _LOOKS = 500, 20_000
_MEMBERS = 200
"""Members of each of the keys that one round trip scans."""


async def scanned(redis: Redis, verb: ScanVerb, key: str) -> AsyncIterator[list[bytes]]:
    """The content of a hash, set or sorted set, flat, in batches of about a thousand.

    It contains whatever is there from the beginning to the end of the scan, even if the key changes meanwhile; a member
    may be repeated.
    """
    cursor: Any = b"0"
    while True:
        cursor, found = await redis.command(verb, key, cursor, "COUNT", BATCH)
        if found:
            yield found
        if int(cursor) == 0:
            return


async def walked(redis: Redis, verb: ScanVerb, keys: Sequence[str]) -> dict[str, list[bytes]]:
    """The whole content of several keys, flat, by key; as of `scanned`, many keys in a round trip."""
    found: dict[str, list[bytes]] = {key: [] for key in keys}
    cursors: dict[str, bytes] = dict.fromkeys(keys, b"0")
    while cursors:
        asked = list(cursors)
        replies = await in_batches(redis, [(verb, key, cursors[key], "COUNT", _MEMBERS) for key in asked])
        for key, (cursor, part) in zip(asked, replies, strict=True):
            found[key] += part
            if int(cursor) == 0:
                del cursors[key]
            else:
                cursors[key] = cursor
    return found


async def in_batches(redis: Redis, commands: Sequence[Command]) -> list[Any]:
    """The replies to any number of independent commands, in order; a round trip for every 500."""
    return [reply for some in batches(commands, _COMMANDS) for reply in await redis.pipeline(some)]


async def members(redis: Redis, key: str) -> AsyncIterator[list[str]]:
    """The members of a sorted set in batches, each without repetitions, as of `scanned`."""
    async for found in scanned(redis, "ZSCAN", key):
        yield list(dict.fromkeys(texts(found[0::2])))


async def members_at(redis: Redis, sets: Sequence[str], ids: Sequence[str]) -> set[str]:
    """The given members that are in any of these sorted sets; one that is found isn't looked for any more.

    One round trip, but for many members in hundreds of sets one for every 20,000 looks.
    """
    found = set[str]()
    for some in batches(sets, max(1, _LOOKS // max(1, len(ids)))):
        left = [item for item in ids if item not in found]
        if not left:
            break
        commands = [(batch, ("ZMSCORE", key, *batch)) for key in some for batch in batches(left)]
        replies = await redis.pipeline([command for _, command in commands])
        for (batch, _), scores in zip(commands, replies, strict=True):
            found.update(item for item, score in zip(batch, scores, strict=True) if score is not None)
    return found


async def listed(redis: Redis, names: str, record: Callable[[str], str]) -> dict[str, dict[str, str]]:
    """The fields of the records that a set names, ordered by name. Removes the names of those that have ended."""
    known = sorted(texts(await redis.command("SMEMBERS", names)))
    rows = await redis.pipeline([("HGETALL", record(name)) for name in known])
    found = {name: fields(row) for name, row in zip(known, rows, strict=True)}
    if ended := [name for name, row in found.items() if not row]:
        await redis.command("SREM", names, *ended)
    return {name: row for name, row in found.items() if row}
