"""The feed cache's storage in Redis: copies that expire, and a lock among all processes."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import redis

from microsub.redis import keys
from microsub.redis.lease import Lease, LeaseCommands
from microsub.redis.protocol import Command, Redis

LONGEST_KEPT = 30 * 86400.0
"""Seconds that a copy without an end is stored: nothing in a cache stays forever."""

LEASE = 10.0
"""Seconds after which a process that died during a request is replaced; a living one renews its lease."""


class FeedCopies:
    """Bytes by URL (`cache.Storage`). Like its connection, it belongs to one event loop.

    `may_keep` decides whether a copy of that many bytes is stored.
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
        found: bytes | None = await self._redis.command("GET", _key(url))
        return found

    async def put(self, url: str, value: bytes, seconds: float) -> None:
        """Store a copy for that many seconds, a month at most."""
        await self._redis.pipeline(self.putting(url, value, seconds))

    def putting(self, url: str, value: bytes, seconds: float) -> list[Command]:
        """The commands of `put`."""
        if seconds <= 0 or not self._may_keep(len(value) + 2 * len(url)):
            return _removing(url)
        return _putting(url, value, seconds, self._clock())

    async def remove(self, url: str) -> None:
        """Forget a copy, if there is one."""
        await self._redis.pipeline(_removing(url))

    async def urls(self) -> list[str]:
        """The URLs of all copies."""
        return _texts(await self._redis.command(*_listing(self._clock())))

    async def tidy(self) -> None:
        """Nothing to do: copies expire."""

    def lock(self, url: str) -> CopyLock:
        """The lock of that URL, not taken yet."""
        return CopyLock(self._redis, self, url, self._lease)

    async def aclose(self) -> None:
        """Nothing to do: the connection belongs to the caller."""


class CopyLock(Lease):
    """The lease for requesting one URL; it reads and writes the copy in the same round trips."""

    def __init__(self, redis: Redis, copies: FeedCopies, url: str, lease: float) -> None:
        super().__init__(redis, f"copy:{_digest(url)}", lease)
        self._copies = copies
        self._url = url

    async def begin(self) -> tuple[bool, bytes | None]:
        """Take it if it is free, and read the copy: one round trip.

        On a cluster, a copy that is written at this very moment may be missed, which costs one more request.
        """
        is_ours, found = await self._redis.pipeline([self.acquiring(), ("GET", _key(self._url))])
        return is_ours is not None, found

    async def end(self, value: bytes, seconds: float) -> None:
        """Store a copy, and release the lock if it is still ours: one round trip."""
        await self._redis.pipeline([*self._copies.putting(self._url, value, seconds), self.extending(0)])


class RedisMapping(MutableMapping[str, bytes]):
    """The copies of `FeedCopies` as a plain mapping, for programs without an event loop.

    Both can use the same database. It needs a `redis.Redis` that doesn't decode. Values expire `LONGEST_KEPT` seconds
    after they were written.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def __getitem__(self, key: str) -> bytes:
        found = self._client.get(_key(key))
        if not isinstance(found, bytes):
            raise KeyError(key)
        return found

    def __setitem__(self, key: str, value: bytes) -> None:
        self._run(_putting(key, value, LONGEST_KEPT, time.time()))

    def __delitem__(self, key: str) -> None:
        if not self._run(_removing(key))[0]:
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        (found,) = self._run([_listing(time.time())])
        return (url for url in _texts(found) if self._client.exists(_key(url)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def lock(self, key: str) -> RedisMappingLock:
        """A lock for that key among all processes, not taken yet."""
        return RedisMappingLock(self._client, key)

    def _run(self, commands: list[Command]) -> list[Any]:
        with self._client.pipeline(transaction=False) as batch:
            for command in commands:
                batch.execute_command(*command)  # type: ignore[no-untyped-call]
            return batch.execute()


class RedisMappingLock(LeaseCommands):
    """A lease that expires after `LEASE` seconds unless it is renewed."""

    def __init__(self, client: redis.Redis, key: str) -> None:
        super().__init__(f"copy:{_digest(key)}", LEASE)
        self._run = client.execute_command

    def acquire(self) -> bool:
        """Take it if it is free."""
        return bool(self._run(*self.acquiring()))  # type: ignore[no-untyped-call]

    def renew(self) -> None:
        """Extend the lease, if it is still ours."""
        self._run(*self.extending())  # type: ignore[no-untyped-call]

    def release(self) -> None:
        """Release it, if it is still ours."""
        self._run(*self.extending(0))  # type: ignore[no-untyped-call]


def _putting(url: str, value: bytes, seconds: float, now: float) -> list[Command]:
    kept = min(seconds, LONGEST_KEPT)
    # The list of URLs is written first: a copy that isn't listed couldn't be purged.
    return [
        ("ZADD", keys.feed_copies(), f"{now + kept:.3f}", _bytes(url)),
        ("SET", _key(url), value, "PX", math.ceil(kept * 1000)),
        ("ZREMRANGEBYSCORE", keys.feed_copies(), "-inf", f"({now:.3f}"),
    ]


def _removing(url: str) -> list[Command]:
    return [("DEL", _key(url)), ("ZREM", keys.feed_copies(), _bytes(url))]


def _listing(now: float) -> Command:
    return "ZRANGEBYSCORE", keys.feed_copies(), f"{now:.3f}", "+inf"


def _texts(urls: list[bytes]) -> list[str]:
    return [url.decode("utf-8", "surrogatepass") for url in urls]


def _key(url: str) -> str:
    return keys.feed_copy(_digest(url))


def _bytes(url: str) -> bytes:
    return url.encode("utf-8", "surrogatepass")


def _digest(url: str) -> str:
    return hashlib.sha256(_bytes(url)).hexdigest()
