"""Deleting posts at once, while anybody may be putting them into timelines.

Retired, withdrawn, erased (`posts.store.garbage`): who added a post before it was retired is met by the withdrawal, and
who adds it later looks again and takes it back. So no timeline is left with an id that stands for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from microsub.errors import NotFound
from microsub.identity.store.accounts import Accounts
from microsub.model.reader import GLOBAL, Reason
from microsub.posts.store import garbage
from microsub.posts.store.garbage import Candidate
from microsub.redis.protocol import Redis
from microsub.timelines.store.remove import Leaving, take_out

_USERS_AT_ONCE = 50


async def erase(
    redis: Redis, accounts: Accounts, doomed: Sequence[Candidate], now: float, *, wanted_too: bool
) -> list[Candidate]:
    """Delete posts and leave tombstones; those that are gone. Without `wanted_too`, condemned posts that somebody has
    spared meanwhile stay.

    To be repeated where it broke off. Raises StoreError.
    """
    retired = await garbage.retire(redis, doomed, now, wanted_too=wanted_too)
    await withdraw(redis, accounts, [one.id for one in retired], now)
    await garbage.erase(redis, retired)
    return retired


async def withdraw(redis: Redis, accounts: Accounts, ids: Sequence[str], now: float) -> None:
    """Take posts out of all timelines of all users, for good."""
    names = [user.name for user in await accounts.users()] if ids else []
    for start in range(0, len(names), _USERS_AT_ONCE):
        batch = names[start : start + _USERS_AT_ONCE]
        await asyncio.gather(*(_withdraw(redis, name, ids, now) for name in batch))


async def _withdraw(redis: Redis, user: str, ids: Sequence[str], now: float) -> None:
    with contextlib.suppress(NotFound):  # a user without channels, or who is being deleted
        await take_out(redis, user, GLOBAL, ids, Leaving(Reason.SWEPT), now)
