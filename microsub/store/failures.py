"""What Redis and its client raise, translated into the project's own errors, in one place."""

from __future__ import annotations

from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    ResponseError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from microsub.errors import StoreFull, StoreUnavailable

_REFUSALS = ("OOM ", "MISCONF ", "NOREPLICAS ", "READONLY ")
_UNAVAILABLE = ("CLUSTERDOWN ", "LOADING ", "MASTERDOWN ", "TRYAGAIN ")
# Until Redis 7 an error inside a script arrives wrapped: "ERR Error running script (…): … -OOM command not allowed".
_REFUSALS_IN_SCRIPT = tuple(f"-{word}" for word in _REFUSALS)


def translate(error: BaseException) -> BaseException:
    """The error to raise instead of `error`: a StoreError where Redis can't serve, else `error` itself (a bug)."""
    if isinstance(error, OutOfMemoryError | ReadOnlyError):
        return StoreFull(f"Redis refuses writes: {error}")
    if isinstance(error, ResponseError):
        text = str(error)
        if text.startswith(_REFUSALS) or any(word in text for word in _REFUSALS_IN_SCRIPT):
            return StoreFull(f"Redis refuses writes: {text}")
        if text.startswith(_UNAVAILABLE):
            return StoreUnavailable(f"Redis is not ready: {text}")
        return error
    if isinstance(error, RedisConnectionError | RedisTimeoutError | RedisClusterException | OSError):
        return StoreUnavailable(f"Redis can't be reached: {error}")
    return error
