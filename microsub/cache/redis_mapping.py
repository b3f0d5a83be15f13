"""Redis as a plain mapping, for programs that use the feed cache without an event loop. The keys are those of
`cache.redis_storage`: both may serve one database at once.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections.abc import Iterator, MutableMapping

import redis

from microsub.cache.redis_storage import LEASE, LONGEST_KEPT
from microsub.redis import keys
from microsub.redis.lease import RENEW


class RedisMapping(MutableMapping[str, bytes]):
    """Text to bytes, over a `redis.Redis` that doesn't decode. Values expire `seconds` after they were written."""

    def __init__(self, client: redis.Redis, *, seconds: float = LONGEST_KEPT, lease: float = LEASE) -> None:
        self._client = client
        self._seconds = seconds
        self._lease = lease

    def __getitem__(self, key: str) -> bytes:
        found = self._client.get(keys.feed_copy(_digest(key)))
        if not isinstance(found, bytes):
            raise KeyError(key)
        return found

    def __setitem__(self, key: str, value: bytes) -> None:
        now = time.time()
        with self._client.pipeline(transaction=False) as batch:
            batch.zadd(keys.feed_copies(), {_bytes(key): now + self._seconds})
            batch.set(keys.feed_copy(_digest(key)), value, px=math.ceil(self._seconds * 1000))
            batch.zremrangebyscore(keys.feed_copies(), "-inf", f"({now:.3f}")
            batch.execute()

    def __delitem__(self, key: str) -> None:
        with self._client.pipeline(transaction=False) as batch:
            batch.delete(keys.feed_copy(_digest(key)))
            batch.zrem(keys.feed_copies(), _bytes(key))
            deleted, _ = batch.execute()
        if not deleted:
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        found: list[bytes] = self._client.zrange(keys.feed_copies(), 0, -1)  # type: ignore[assignment]
        for key in found:
            text = key.decode("utf-8", "surrogatepass")
            if self._client.exists(keys.feed_copy(_digest(text))):
                yield text

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def lock(self, key: str) -> RedisMappingLock:
        """A lock on that key among all processes, not taken yet."""
        return RedisMappingLock(self._client, keys.lease(f"copy:{_digest(key)}"), self._lease)


class RedisMappingLock:
    """Ends by itself after `lease` seconds, unless it is renewed."""

    def __init__(self, client: redis.Redis, key: str, lease: float) -> None:
        self._client = client
        self._key = key
        self._token = secrets.token_hex(8)
        self.lease: float | None = lease
        self._milliseconds = math.ceil(lease * 1000)

    def acquire(self) -> bool:
        """Take it if it is free."""
        return bool(self._client.set(self._key, self._token, nx=True, px=self._milliseconds))

    def renew(self) -> None:
        """Extend the lease, if it is still ours."""
        self._client.eval(RENEW.text, 1, self._key, self._token, str(self._milliseconds))

    def release(self) -> None:
        """Give it back, if it is still ours."""
        self._client.eval(RENEW.text, 1, self._key, self._token, "0")


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _digest(key: str) -> str:
    return hashlib.sha256(_bytes(key)).hexdigest()
