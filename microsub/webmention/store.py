"""Webmentions in Redis: a user's list, and the queue of webmentions whose source must be checked."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Literal

from microsub.base.errors import InvalidRequest, NotFound
from microsub.redis import keys
from microsub.redis.replies import reading, texts
from microsub.redis.scripts import load
from microsub.webmention.mention import Mention
from microsub.work import calendar_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from microsub.redis.protocol import Redis

_WRITE = load("mention_write")

DUE = "mentions"
"""The kind of work, as `work.calendar` has it; its members are a user and the id of a webmention."""

MOST_WAITING = 200
MOST_KEPT = 2_000
"""Webmentions of one user. A forgotten webmention's post stays, and is recognised if the pair arrives again."""

_AT_THE_LATEST = 60.0
"""Seconds until the check of a webmention whose receiving process died at once."""


Order = Literal["approved", "rejected", "withdrawn"]
"""A user's actions on a webmention."""


class Written(Enum):
    """The result of a write. `CHANGED`: another value was stored since; `FULL`: too many are waiting."""

    DONE = 1
    CHANGED = 0
    NO_USER = -1
    FULL = -2


class MentionStore:
    """The webmentions of all users. Raises StoreError."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.due = calendar_of(redis, DUE)

    async def get(self, user: str, mention_id: str) -> Mention | None:
        """The webmention with that id."""
        key = keys.mentions(user)
        found = await self._redis.command("HGET", key, mention_id)
        with reading(key):
            return None if found is None else Mention.of(found)

    async def all_of(self, user: str) -> list[Mention]:
        """All webmentions of a user, the latest first."""
        key = keys.mentions(user)
        ids = texts(await self._redis.command("ZRANGE", keys.mentions_by_time(user), 0, -1, "REV"))
        found = await self._redis.command("HMGET", key, *ids) if ids else []
        with reading(key):
            return [Mention.of(one) for one in found if one is not None]

    async def queue(
        self, user: str, mention: Mention, read: Mention | None, now: float, *, most: int = MOST_WAITING
    ) -> Written:
        """Write a webmention whose source is to be checked now; `read` is the stored value that was read.

        At most `most` may wait. The worker finds it even if this process dies at once.
        """
        member = f"{user} {mention.id}"
        await self.due.note({member: now + _AT_THE_LATEST}, "more")
        written = await self.write(user, mention, read, now, look=now, most=most)
        if written is Written.DONE:
            await self.due.note({member: now})
        return written

    async def order(self, user: str, mention_id: str, what: Order, now: float) -> None:
        """Record what its user wants done with a webmention; a worker does it soon.

        Raises NotFound if there is no such webmention, or the user is gone or disabled; InvalidRequest if a rejected
        one is approved.
        """
        while (mention := await self.get(user, mention_id)) is not None:
            if what == "approved" and mention.state == "rejected":
                raise InvalidRequest(
                    "the webmention was rejected permanently; once it is deleted, it can be sent again"
                )
            wanted = replace(mention, tries=0, approved=what == "approved")
            if what != "approved":
                wanted = replace(wanted, state=what)
            written = await self.queue(user, wanted, mention, now, most=MOST_KEPT)
            if written is Written.DONE:
                return
            if written is not Written.CHANGED:
                break
        raise NotFound("there is no such webmention any more")

    async def write(
        self, user: str, mention: Mention, read: Mention | None, now: float, *, look: float | None = None,
        most: int = MOST_WAITING,
    ) -> Written:  # fmt: skip
        """Write a webmention, whose source is checked at `look`; None: not at all."""
        call = _WRITE(
            user,
            id=mention.id,
            read="" if read is None else read.to_json(),
            value=mention.to_json(),
            look="" if look is None else f"{look:.3f}",
            now=f"{now:.3f}",
            most=most,
            kept=MOST_KEPT,
        )
        return Written(await self._redis.script(call))

    async def waiting(self, user: str, now: float, most: int) -> list[str]:
        """At most `most` ids of webmentions whose source is due to be checked, the longest due first."""
        key = keys.mentions_waiting(user)
        return texts(await self._redis.command("ZRANGEBYSCORE", key, "-inf", f"{now:.3f}", "LIMIT", 0, most))

    async def forget_waiting(self, user: str, mention_id: str) -> None:
        """Remove an id without a webmention from the list of waiting ones."""
        await self._redis.command("ZREM", keys.mentions_waiting(user), mention_id)

    async def note_waiting(self, users: Iterable[str], now: float) -> None:
        """Plan work for all waiting webmentions of users, if nothing is planned for them."""
        names = list(users)
        found = await self._redis.pipeline([("ZRANGE", keys.mentions_waiting(name), 0, -1) for name in names])
        members = [f"{name} {mention_id}" for name, ids in zip(names, found, strict=True) for mention_id in texts(ids)]
        await self.due.note(dict.fromkeys(members, now), "missing")
