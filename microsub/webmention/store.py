"""Webmentions in Redis: a user's list, which is the queue of those whose source is to be looked at, too."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Literal

from microsub.errors import InvalidRequest, NotFound
from microsub.redis import keys
from microsub.redis.due import DueTimes
from microsub.redis.replies import reading, texts
from microsub.redis.scripts import load
from microsub.webmention.mention import Mention

if TYPE_CHECKING:
    from collections.abc import Iterable

    from microsub.redis.protocol import Arg, Redis

_WRITE = load("mention_write")

DUE = "mentions"
"""The kind of work, as `redis.due` has it; its members are users."""

MOST_WAITING = 200
MOST_KEPT = 2_000
"""Webmentions of one user. Of a forgotten one the post stays, and is known again when the pair comes once more."""

_AT_THE_LATEST = 60.0
"""Seconds until a look at what a process received that died in that moment."""


Order = Literal["approved", "rejected", "withdrawn"]
"""What a user may want done with a webmention."""


class Written(Enum):
    """What became of a write: `CHANGED`, another one stands there by now; `FULL`, too many wait."""

    DONE = 1
    CHANGED = 0
    NO_USER = -1
    FULL = -2


class MentionStore:
    """The webmentions of all users. Raises StoreError."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.due = DueTimes(redis, DUE, at_once=8)

    async def get(self, user: str, mention_id: str) -> Mention | None:
        """The webmention of that id."""
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
        """Write a webmention whose source is to be looked at now; `read` is what stood there.

        At most `most` may wait. The worker hears of it though this process dies at once.
        """
        await self.due.note_missing({user: now + _AT_THE_LATEST})
        written = await self.write(user, mention, read, now, look=now, most=most)
        if written is Written.DONE:
            await self.due.note({user: now})
        return written

    async def order(self, user: str, mention_id: str, what: Order, now: float) -> None:
        """Note what its user wants done with a webmention, soon.

        Raises NotFound where there is none of that id, or the user is gone or disabled, and InvalidRequest for an
        approval of what was rejected.
        """
        while (mention := await self.get(user, mention_id)) is not None:
            if what == "approved" and mention.state == "rejected":
                raise InvalidRequest("the webmention was rejected for good; once it is deleted, it can be sent again")
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
        """Write a webmention, whose source is to be looked at then; None: it waits for nothing."""
        args: list[Arg] = [mention.id, "" if read is None else read.to_json(), mention.to_json()]
        args += ["" if look is None else f"{look:.3f}", f"{now:.3f}", most, MOST_KEPT]
        functions = (keys.user, keys.mentions, keys.mentions_waiting, keys.mentions_by_time)
        return Written(await self._redis.script(_WRITE, [key(user) for key in functions], args))

    async def waiting(self, user: str, now: float, most: int) -> list[str]:
        """The ids of at most `most` webmentions whose source is to be looked at, the longest due first."""
        key = keys.mentions_waiting(user)
        return texts(await self._redis.command("ZRANGEBYSCORE", key, "-inf", f"{now:.3f}", "LIMIT", 0, most))

    async def forget(self, user: str, mention_id: str) -> None:
        """Let nothing wait under an id that no webmention has."""
        await self._redis.command("ZREM", keys.mentions_waiting(user), mention_id)

    async def next_look(self, user: str) -> float | None:
        """When the next source of a user is to be looked at; None where nothing waits."""
        first = await self._redis.command("ZRANGE", keys.mentions_waiting(user), 0, 0, "WITHSCORES")
        return float(first[1]) if first else None

    async def note_waiting(self, users: Iterable[str], now: float) -> None:
        """Note those users as due for whom something waits, where nothing is noted."""
        names = list(users)
        there = await self._redis.pipeline([("EXISTS", keys.mentions_waiting(name)) for name in names])
        await self.due.note_missing({name: now for name, waits in zip(names, there, strict=True) if waits})
