"""Asks Redis at the beginning of a request, all at once, for the replies that it will probably need.

An app sends the same requests for each of its syncs. While nothing is new, one of them asks Redis the same questions as
the last time, each of which follows from the reply to the one before. `Foresight` remembers these questions, never
their replies: it asks all of them together, and a request then waits for Redis once. A question that turns out to be
another one is asked as usual.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from microsub.base.bounded_cache import BoundedCache
from microsub.redis.protocol import READS, Arg, Command, Redis, ScriptCall

_MOST_OF_REQUEST = 3000
"""Arguments of questions that are remembered of a request: asking in vain takes about a millisecond."""
_MOST_OF_REPLIES = 10_000
"""Parts of the replies to them: larger ones are asked for when it is a request's turn, not by all that wait for one."""
_MOST = 200_000
"""Arguments that are remembered in all: some megabytes."""

_Question = tuple[str, tuple[Any, ...]]
"""A method of `Redis`, and its arguments as tuples."""
Changing = tuple[str | float, ...]


@dataclass(slots=True)
class _Request:
    """The questions of a request that change nothing, in their order, and the early replies that it hasn't taken.

    `size` is the number of all arguments, `replied` that of the parts of the replies.
    """

    asked: list[_Question] = field(default_factory=list)
    size: int = 0
    replied: int = 0
    early: defaultdict[_Question, deque[asyncio.Future[Any]]] = field(default_factory=lambda: defaultdict(deque))

    def note(self, question: _Question, size: int, parts: int) -> None:
        """Remember a question that was answered, if there is room for it."""
        if self.size + size <= _MOST_OF_REQUEST and self.replied + parts <= _MOST_OF_REPLIES:
            self.asked.append(question)
            self.size += size
            self.replied += parts

    def drop(self) -> None:
        """Forget the early replies."""
        for task in chain.from_iterable(self.early.values()):
            if not task.cancel() and not task.cancelled():
                task.exception()  # marks an error as seen
        self.early.clear()


_request: ContextVar[_Request | None] = ContextVar("foresight", default=None)


def read_again() -> None:
    """Have the request of the present task read from now on: it has changed or waited for what it asked for early."""
    if (request := _request.get()) is not None:
        request.drop()


class Foresight:
    """The connection `redis`, with foresight for the requests that begin with `of`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._known: BoundedCache[Hashable, tuple[Changing, _Request]] = BoundedCache(
            _MOST, lambda known: 1 + known[1].size
        )

    @property
    def is_cluster(self) -> bool:
        """As of the connection."""
        return self._redis.is_cluster

    @contextmanager
    def of(self, request: Hashable, *changing: str | float) -> Iterator[None]:
        """Ask early for what this request asked for the last time, and note what it asks for now.

        `changing` are values of the request that are others each time, such as its time: numbers that are arguments of
        its questions, and texts that are parts of them.
        """
        former, known = self._known.get(request) or ((), _Request())
        changes = {old: new for old, new in zip(former, changing, strict=False) if old != new}
        present = _Request()
        token = _request.set(present)
        try:
            for question in known.asked:
                method, args = again = _changed(question, changes) if changes else question
                present.early[again].append(asyncio.ensure_future(getattr(self._redis, method)(*args)))
            yield
            self._known[request] = changing, present
        except BaseException:
            self._known.pop(request)
            raise
        finally:
            _request.reset(token)
            present.drop()

    async def command(self, *args: Arg) -> Any:
        """See `Redis`, as for the other methods."""
        return await self._ask("command", args[0] in READS, len(args), *args)

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """See `Redis`."""
        reads = all(command[0] in READS for command in commands)
        found: list[Any] = await self._ask("pipeline", reads, sum(map(len, commands)), commands)
        return found

    async def script(self, call: ScriptCall) -> Any:
        """See `Redis`."""
        return await self._ask("script", not call[0].writes, len(call[1]) + len(call[2]), call)

    async def scripts(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """See `Redis`."""
        size = sum(len(keys) + len(args) for _, keys, args in calls)
        found: list[Any] = await self._ask("scripts", not any(call[0].writes for call in calls), size, calls)
        return found

    def scan(self, count: int = 1000) -> AsyncIterator[list[bytes]]:
        """See `Redis`."""
        return self._redis.scan(count)

    async def aclose(self) -> None:
        """See `Redis`."""
        await self._redis.aclose()

    async def _ask(self, method: str, reads: bool, size: int, *args: Any) -> Any:
        request = _request.get()
        if request is not None and not reads:
            request.drop()
        elif request is not None and request.size + size <= _MOST_OF_REQUEST:
            question = method, _frozen(args)
            early = request.early.get(question)
            reply = await (early.popleft() if early else getattr(self._redis, method)(*args))
            request.note(question, size, _parts(reply))
            return reply
        return await getattr(self._redis, method)(*args)


def _parts(reply: Any) -> int:
    """The number of values in a reply, and of hundreds of bytes."""
    if isinstance(reply, list):
        return len(reply) if len(reply) > _MOST_OF_REPLIES else sum(map(_parts, reply))
    return 1 + len(reply) // 100 if isinstance(reply, bytes) else 1


def _frozen(part: Any) -> Any:
    return tuple(map(_frozen, part)) if isinstance(part, list | tuple) else part


def _changed(part: Any, changes: dict[str | float, str | float]) -> Any:
    if isinstance(part, tuple):
        return tuple([_changed(one, changes) for one in part])
    if isinstance(part, float):
        return changes.get(part, part)
    if isinstance(part, str | int):
        for old, new in changes.items():
            if isinstance(old, str) and old in str(part):
                return type(part)(str(part).replace(old, str(new)))
    return part
