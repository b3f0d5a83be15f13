"""The feed cache's storage in Redis: copies that go by themselves, and a lock with a lease among all processes."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable

from microsub.redis import keys
from microsub.redis.lease import Lease
from microsub.redis.protocol import Command, Redis

LONGEST_KEPT = 30 * 86400.0
"""Seconds for which a copy without an end is kept: nothing of a cache stays for ever."""

LEASE = 10.0
"""Seconds after which a process that died in a request is replaced; one that lives renews its lease."""


class FeedCopies:
    """Bytes by URL (`cache.Storage`). Like its connection, it belongs to one event loop.

    `may_keep` is asked before a copy of that many bytes is kept.
    """

    def __init__(
        self,
        redis: Redis,
        *,
        lease: float = LEASE,
        clock: Callable[[], float] = time.time,
        may_keep: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._redis = redis
        self._may_keep = may_keep
        self._lease = lease
        self._clock = clock

    async def get(self, url: str) -> bytes | None:
        """The copy, or None."""
        found: bytes | None = await self._redis.command("GET", keys.feed_copy(_digest(url)))
        return found

    async def put(self, url: str, value: bytes, seconds: float) -> None:
        """Keep a copy for that many seconds, a month at most."""
        await self._redis.pipeline(self.putting(url, value, seconds))

    def putting(self, url: str, value: bytes, seconds: float) -> list[Command]:
        """The commands that `put` is."""
        milliseconds = math.ceil(min(seconds, LONGEST_KEPT) * 1000)
        if milliseconds <= 0 or not self._may_keep(len(value) + 2 * len(url)):
            return _removing(url)
        now = self._clock()
        # The list of URLs is written first: a copy that it doesn't have could not be purged.
        return [
            ("ZADD", keys.feed_copies(), f"{now + milliseconds / 1000:.3f}", _bytes(url)),
            ("SET", keys.feed_copy(_digest(url)), value, "PX", milliseconds),
            ("ZREMRANGEBYSCORE", keys.feed_copies(), "-inf", f"({now:.3f}"),
        ]

    async def remove(self, url: str) -> None:
        """Forget a copy, if there is one."""
        await self._redis.pipeline(_removing(url))

    async def urls(self) -> list[str]:
        """The URLs of all copies."""
        found = await self._redis.command("ZRANGEBYSCORE", keys.feed_copies(), f"{self._clock():.3f}", "+inf")
        return [url.decode("utf-8", "surrogatepass") for url in found]

    async def tidy(self) -> None:
        """Nothing to do: what nobody needs goes by itself."""

    def lock(self, url: str) -> CopyLock:
        """The lock of that URL, not taken yet."""
        return CopyLock(self._redis, self, url, self._lease)

    async def aclose(self) -> None:
        """Nothing to do: the connection is whose it was."""


class CopyLock(Lease):
    """The lease on asking for one URL, which reads and writes the copy in the same round trips."""

    def __init__(self, redis: Redis, copies: FeedCopies, url: str, lease: float) -> None:
        super().__init__(redis, f"copy:{_digest(url)}", lease)
        self._copies = copies
        self._url = url

    async def begin(self) -> tuple[bool, bytes | None]:
        """Take it if it is free, and read the copy: one round trip. On a cluster, a copy that comes in this very moment
        may be missed, which costs its publisher one request more.
        """
        is_ours, found = await self._redis.pipeline([self.acquiring(), ("GET", keys.feed_copy(_digest(self._url)))])
        return is_ours is not None, found

    async def end(self, value: bytes, seconds: float) -> None:
        """Keep a copy, and give the lock back, if it is still ours: one round trip."""
        await self._redis.pipeline([*self._copies.putting(self._url, value, seconds), self.releasing()])


def _removing(url: str) -> list[Command]:
    return [("DEL", keys.feed_copy(_digest(url))), ("ZREM", keys.feed_copies(), _bytes(url))]


def _bytes(url: str) -> bytes:
    return url.encode("utf-8", "surrogatepass")


def _digest(url: str) -> str:
    return hashlib.sha256(_bytes(url)).hexdigest()
