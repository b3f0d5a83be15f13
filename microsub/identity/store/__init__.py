"""What Redis keeps of accounts, sessions, credentials and grants."""

from __future__ import annotations

from microsub.errors import NotFound
from microsub.redis import keys
from microsub.redis.protocol import Redis


async def absent(redis: Redis, user: str, uid: str | None = None) -> NotFound:
    """The error for a write to `user` (and their channel `uid`) that found nothing to write to."""
    if uid is None or not await redis.command("EXISTS", keys.user(user)):
        return NotFound(f"there is no user '{user[:80]}'")
    return NotFound(f"there is no channel '{uid[:80]}'")
