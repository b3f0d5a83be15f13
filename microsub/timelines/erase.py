"""Deletes posts at once, while other processes may be adding them to timelines.

Retired, withdrawn, erased (`posts.garbage`): if a process added a post before it was retired, the withdrawal removes
it; if later, that process checks again and removes it. So no timeline keeps an id without a post.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from microsub.accounts import Accounts
from microsub.base.errors import NotFound
from microsub.model.reader import GLOBAL, Reason
from microsub.posts import Candidate, garbage
from microsub.redis.protocol import Redis
from microsub.timelines.remove import Leaving, take_out

_USERS_AT_ONCE = 50


class OtherReferences(Protocol):
    """What refers to items besides timelines: a user's output feeds."""

    def references(self, user: str) -> AsyncIterator[list[str]]:
        """The ids of the items, in batches."""

    async def withdraw(self, user: str, ids: Sequence[str], now: float) -> None:
        """Remove items at a Unix time."""


async def erase_posts(
    redis: Redis,
    accounts: Accounts,
    outputs: OtherReferences,
    doomed: Sequence[Candidate],
    now: float,
    *,
    wanted_too: bool,
) -> list[Candidate]:
    """Delete posts and leave tombstones; returns the deleted ones.

    Without `wanted_too`, condemned posts that were spared meanwhile stay.

    Repeat the call after an interruption. Raises StoreError.
    """
    retired = await garbage.retire(redis, doomed, now, wanted_too=wanted_too)
    await withdraw(redis, accounts, outputs, [one.id for one in retired], now)
    await garbage.erase(redis, retired)
    return retired


async def withdraw(redis: Redis, accounts: Accounts, outputs: OtherReferences, ids: Sequence[str], now: float) -> None:
    """Remove posts from all timelines and output feeds of all users permanently."""
    names = [user.name for user in await accounts.users()] if ids else []
    for start in range(0, len(names), _USERS_AT_ONCE):
        batch = names[start : start + _USERS_AT_ONCE]
        await asyncio.gather(*(_withdraw(redis, outputs, name, ids, now) for name in batch))


async def _withdraw(redis: Redis, outputs: OtherReferences, user: str, ids: Sequence[str], now: float) -> None:
    with contextlib.suppress(NotFound):  # a user without channels, or one that is being deleted
        await take_out(redis, user, GLOBAL, ids, Leaving(Reason.SWEPT), now)
    await outputs.withdraw(user, ids, now)
