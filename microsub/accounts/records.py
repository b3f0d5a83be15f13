"""Records of users: the error for one that is missing, and lists of records."""

from __future__ import annotations

from collections.abc import Callable

from microsub.base.errors import NotFound
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import fields, texts


async def absent(redis: Redis, user: str, uid: str | None = None) -> NotFound:
    """The error for a write to `user` (and their channel `uid`) that found no record."""
    if uid is None or not await redis.command("EXISTS", keys.user(user)):
        return NotFound(f"there is no user '{user[:80]}'")
    return NotFound(f"there is no channel '{uid[:80]}'")


async def listed(redis: Redis, names: str, record: Callable[[str], str]) -> dict[str, dict[str, str]]:
    """The fields of the records that a set names, ordered by name. Removes the names of those that have ended."""
    known = sorted(texts(await redis.command("SMEMBERS", names)))
    rows = await redis.pipeline([("HGETALL", record(name)) for name in known])
    found = {name: fields(row) for name, row in zip(known, rows, strict=True)}
    if ended := [name for name, row in found.items() if not row]:
        await redis.command("SREM", names, *ended)
    return {name: row for name, row in found.items() if row}
