"""Webmentions in Redis: a user's list, and the queue of webmentions whose source must be checked."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Literal

from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.urls import host_of
from microsub.redis import keys
from microsub.redis.replies import reading, texts
from microsub.redis.scripts import load
from microsub.webmention.mention import Mention
from microsub.work import calendar_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from microsub.redis.protocol import Arg, Redis

_WRITE = load("mention_write")

DUE = "mentions"
"""The kind of work, as `work.calendar` has it; its members are users."""

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
        await self.due.note({user: now + _AT_THE_LATEST}, "more")
        written = await self.write(user, mention, read, now, look=now, most=most)
        if written is Written.DONE:
            await self.due.note({user: now})
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
        args: list[Arg] = [mention.id, "" if read is None else read.to_json(), mention.to_json()]
        args += ["" if look is None else f"{look:.3f}", f"{now:.3f}", most, MOST_KEPT]
        functions = (keys.user, keys.mentions, keys.mentions_waiting, keys.mentions_by_time)
        return Written(await self._redis.script(_WRITE, [key(user) for key in functions], args))

    async def waiting(self, user: str, now: float, most: int) -> dict[str, list[str]]:
        """At most `most` ids of webmentions whose source is due to be checked, by its host, the longest due first.

        Ids without a webmention are removed from the queue.
        """
        key = keys.mentions_waiting(user)
        ids = texts(await self._redis.command("ZRANGEBYSCORE", key, "-inf", f"{now:.3f}", "LIMIT", 0, most))
        found = await self._redis.command("HMGET", keys.mentions(user), *ids) if ids else []
        if missing := [mention_id for mention_id, one in zip(ids, found, strict=True) if one is None]:
            await self._redis.command("ZREM", key, *missing)
        hosts: dict[str, list[str]] = {}
        with reading(keys.mentions(user)):
            for mention_id, one in zip(ids, found, strict=True):
                if one is not None:
                    hosts.setdefault(host_of(Mention.of(one).source), []).append(mention_id)
        return hosts

    async def claim(self, user: str, mention_id: str, until: float) -> None:
        """Note that a waiting webmention is being checked: until then, it isn't due for others."""
        await self._redis.command("ZADD", keys.mentions_waiting(user), "XX", f"{until:.3f}", mention_id)

    async def next_look(self, user: str) -> float | None:
        """When the next source of a user is due to be checked; None if nothing is waiting."""
        first = await self._redis.command("ZRANGE", keys.mentions_waiting(user), 0, 0, "WITHSCORES")
        return float(first[1]) if first else None

    async def note_waiting(self, users: Iterable[str], now: float) -> None:
        """Plan work for users with waiting webmentions, if nothing is planned for them."""
        names = list(users)
        there = await self._redis.pipeline([("EXISTS", keys.mentions_waiting(name)) for name in names])
        await self.due.note({name: now for name, waits in zip(names, there, strict=True) if waits}, "missing")
