"""What Redis and its client raise, translated into the project's own errors, in one place."""

from __future__ import annotations

import re
from typing import Any

from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from microsub.errors import StoreFull, StoreUnavailable, StoreUnreached

_REFUSALS = ("OOM ", "MISCONF ", "NOREPLICAS ", "READONLY ")
# redis-py has classes for them, whose text lacks the word.
_NOT_READY = (BusyLoadingError, ClusterDownError, TryAgainError)  # MASTERDOWN is a ClusterDownError
_MOVING_IN_SCRIPT = "non local key"
# Until Redis 7 an error inside a script arrives wrapped: "ERR Error running script (…): … -OOM command not allowed".
_REFUSALS_IN_SCRIPT = tuple(f"-{word}" for word in _REFUSALS)
_WHERE_IN_SCRIPT = re.compile(r"\s*script: [0-9a-f]{40}, on @user_script:\d+\.?|\A.*@user_script: ?\d+: -?")
"""Where in a script of ours it happened, in the words of Redis 7 and of Redis 6: nothing that an operator can use."""


def translate(error: BaseException) -> BaseException:
    """The error to raise instead of `error`: a StoreError where Redis can't serve, else `error` itself (a bug)."""
    if isinstance(error, OutOfMemoryError | ReadOnlyError):
        return StoreFull(f"Redis refuses writes: {_plain(str(error))}")
    if isinstance(error, _NOT_READY):
        return StoreUnreached(f"Redis is not ready: {error}")
    if isinstance(error, ResponseError):
        text = str(error)
        if text.startswith(_REFUSALS) or any(word in text for word in _REFUSALS_IN_SCRIPT):
            return StoreFull(f"Redis refuses writes: {_plain(text)}")
        if _MOVING_IN_SCRIPT in text:
            return StoreUnavailable(f"a slot of the Redis Cluster is moving from one master to another: {_plain(text)}")
        return error
    if isinstance(error, RedisConnectionError | RedisTimeoutError | RedisClusterException | OSError):
        return StoreUnavailable(f"Redis can't be reached: {error}")
    return error


def all_good(replies: list[Any]) -> list[Any]:
    """The replies; the first error among them is raised, translated."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise translate(reply) from reply
    return replies


def _plain(text: str) -> str:
    return _WHERE_IN_SCRIPT.sub("", text)
