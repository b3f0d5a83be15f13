"""Asks Redis at the beginning of a request, all at once, for the replies that it will probably need.

An app sends the same requests for each of its syncs. While nothing is new, one of them asks Redis the same questions as
the last time, each of which follows from the reply to the one before. `Foresight` remembers these questions and asks
all of them together, so that a request waits for Redis once. A question that turns out to be another one is asked as
usual.

It also asks what the following requests of the sync will probably ask, and keeps replies for them, for two seconds at
most and as long as Redis reports no change of a key that they were read from. So a request that follows needn't wait.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from microsub.base.bounded_cache import BoundedCache
from microsub.base.errors import StoreError, StoreSilent, StoreUnusable
from microsub.redis.cluster import key_of, slot_of
from microsub.redis.multiplexer import Changed
from microsub.redis.protocol import READS, Arg, Command, Redis, ScriptCall

LIFE = 2.0
"""Seconds for which a reply is kept, should the report of a change not arrive."""

_MOST_OF_REQUEST = 3000
"""Arguments of the questions of a request that are remembered: a millisecond, if they are asked needlessly."""
_MOST_OF_REPLIES = 10_000
"""Parts of the replies to them: larger ones are asked for when it is a request's turn, not by all that wait for one."""
_MOST = 200_000
"""Arguments that are remembered in all, and parts of replies that are kept in all: some megabytes each."""

_Question = tuple[str, tuple[Any, ...]]
"""A method of `Redis`, and its arguments as tuples."""
_Changing = tuple[str | float, ...]
"""The values of a request that are others each time; the first is its time."""
_Changes = dict[str | float, str | float]
_NOW = -math.inf
"""Stands for the time of the request in questions whose replies are kept."""


@dataclass(slots=True)
class _Request:
    """The questions of a request that change nothing, in their order, and the early replies that it hasn't taken.

    `size` is the number of all arguments, `replied` that of the parts of the replies.
    """

    changing: _Changing
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


class _Kept(NamedTuple):
    """A reply to a request at time `at`, or the wait for it; `slots` are those of the keys that it was read from."""

    number: int
    at: float
    reply: asyncio.Future[Any]
    slots: frozenset[int]
    parts: int = 1


class _Replies:
    """The replies that are kept, by question."""

    def __init__(self) -> None:
        self._kept: BoundedCache[_Question, _Kept] = BoundedCache(_MOST, lambda kept: kept.parts)
        self._changed: dict[int, int] = {}
        """`number` at the latest change of a key, by slot."""
        self.number = 0
        """Counts the replies that were kept."""

    def get(self, question: _Question, now: float) -> asyncio.Future[Any] | None:
        """The future reply, if it is kept and nothing that it was read from has changed."""
        kept = self._kept.get(question)
        if kept is None or not kept.at <= now < kept.at + LIFE:
            return None
        return kept.reply if all(self._changed.get(slot, 0) < kept.number for slot in kept.slots) else None

    def keep(self, question: _Question, now: float, slots: frozenset[int], reply: asyncio.Future[Any]) -> None:
        """Keep a reply to come, for `LIFE`, unless it is an error or large."""
        self.number += 1
        self._kept[question] = _Kept(self.number, now, reply, slots)
        reply.add_done_callback(partial(self._came, question, self.number))
        asyncio.get_running_loop().call_later(LIFE, self._forget, question, self.number)

    def changed(self, names: list[bytes] | None) -> None:
        """Use the replies that were read from these keys no more; None: all."""
        if names is None:
            self._kept.clear()
        self._changed.update(dict.fromkeys(map(slot_of, names or ()), self.number))

    def _came(self, question: _Question, number: int, reply: asyncio.Future[Any]) -> None:
        kept, failed = self._kept.get(question), reply.cancelled() or reply.exception() is not None
        if kept is None or kept.number != number:
            return
        parts = 0 if failed else _parts(reply.result())
        if failed or parts > _MOST_OF_REPLIES:
            self._forget(question, number)
        else:
            self._kept[question] = kept._replace(parts=parts)

    def _forget(self, question: _Question, number: int) -> None:
        kept = self._kept.get(question)
        if kept is not None and kept.number == number:
            self._kept.pop(question)


_request: ContextVar[_Request | None] = ContextVar("foresight", default=None)


def read_again() -> None:
    """Have the request of the present task read from now on: it has changed or waited for what it asked for early."""
    if (request := _request.get()) is not None:
        request.drop()


class Foresight:
    """The connection `redis`, with foresight for the requests that begin with `of`.

    `reporting` makes another connection to the same server, which reports changes of the keys that are read by it
    (`Multiplexed`). Without it, or if it is refused, no reply is kept.
    """

    def __init__(self, redis: Redis, reporting: Callable[[Changed], Redis] | None = None) -> None:
        self._redis = redis
        self._known: BoundedCache[Hashable, _Request] = BoundedCache(_MOST, lambda known: 1 + known.size)
        self._followed: BoundedCache[Hashable, Hashable] = BoundedCache(_MOST_OF_REPLIES)
        self._latest: BoundedCache[Hashable, tuple[Hashable, float]] = BoundedCache(_MOST_OF_REPLIES)
        self._replies = _Replies()
        self._reporting = reporting and reporting(self._replies.changed)

    @property
    def is_cluster(self) -> bool:
        """As of the connection."""
        return self._redis.is_cluster

    @contextmanager
    def of(self, sync: Hashable, request: Hashable, now: float, *changing: str) -> Iterator[None]:
        """Ask early for what this request asked for the last time, and note what it asks for now.

        `now`, its Unix time, and the texts `changing` are others each time: the time is a number among the arguments
        of its questions, the texts are parts of them. `sync` has the same value for all requests of an app: what
        followed this request the last time is asked for too, and its replies are kept.
        """
        known, present = self._known.get(request), _Request((now, *changing))
        token = _request.set(present)
        try:
            if known is not None and self._has_asked(known, present, now):
                self._ask_ahead(request, known, present, now)
            yield
            self._known[request] = present
            self._note_order(sync, request, now)
        except BaseException:
            self._known.pop(request)
            raise
        finally:
            _request.reset(token)
            present.drop()

    def _has_asked(self, known: _Request, present: _Request, now: float) -> bool:
        """Ask the questions of the last time. False if all replies were kept."""
        changes, kept = _changes(known.changing, present.changing), self._replies.number
        for question in known.asked:
            again = _changed(question, changes)
            present.early[again].append(asyncio.shield(self._asked(again, now)))
        return self._replies.number != kept

    def _ask_ahead(self, request: Hashable, known: _Request, present: _Request, now: float) -> None:
        """Ask for what the requests after this one asked for the last time, but for what will be other values."""
        same = dict(zip(known.changing, present.changing, strict=False))
        room, parts, seen = _MOST_OF_REQUEST - known.size, _MOST_OF_REPLIES - known.replied, {request}
        while (request := self._followed.get(request)) not in seen and (after := self._known.get(request)) is not None:
            room, parts = room - after.size, parts - after.replied
            if room < 0 or parts < 0:
                return
            changes = {**same, after.changing[0]: now}
            unknown: _Changes = {old: "0" for old in after.changing[1:] if old not in same}
            for question in after.asked:
                if _slots_of(question) is not None and _changed(question, unknown) == question:
                    self._asked(_changed(question, changes), now)
            seen.add(request)

    def _note_order(self, sync: Hashable, request: Hashable, now: float) -> None:
        before, at = self._latest.get(sync) or (None, -math.inf)
        self._latest[sync] = request, now
        if self._reporting is not None and now - at < LIFE:
            self._followed[before] = request

    def _asked(self, question: _Question, now: float) -> asyncio.Future[Any]:
        """The future reply to a question at that time, kept if Redis reports its changes."""
        lasting = _changed(question, {now: _NOW})
        reply = self._replies.get(lasting, now)
        if reply is None:
            slots = _slots_of(question) if self._reporting is not None else None
            reply = asyncio.ensure_future(self._answer(question, is_reported=slots is not None))
            reply.add_done_callback(_seen)
            if slots is not None:
                self._replies.keep(lasting, now, slots, reply)
        return reply

    async def _answer(self, question: _Question, *, is_reported: bool) -> Any:
        method, args = question
        if is_reported and self._reporting is not None:
            try:
                return await getattr(self._reporting, method)(*args)
            except StoreSilent:
                raise
            except StoreUnusable:
                self._reporting = None
            except StoreError:
                pass
            self._replies.changed(None)
        return await getattr(self._redis, method)(*args)

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
        """Close the connection that reports changes."""
        if self._reporting is not None:
            await self._reporting.aclose()

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


def _seen(reply: asyncio.Future[Any]) -> None:
    """Mark the error of a reply that nobody may wait for as seen."""
    if not reply.cancelled():
        reply.exception()


def _slots_of(question: _Question) -> frozenset[int] | None:
    """The slots of the keys of a question, one for each of its parts; None if a part has no key."""
    method, (asked, *more) = question
    if method == "command":
        keys: Iterable[Arg | None] = [key_of((asked, *more))]
    elif method == "pipeline":
        keys = map(key_of, asked)
    else:
        calls: Sequence[ScriptCall] = [asked] if method == "script" else asked
        keys = [names[0] if names else None for _, names, _ in calls]
    found = list(keys)
    return None if None in found else frozenset(slot_of(key) for key in found if key is not None)


def _changes(former: _Changing, present: _Changing) -> _Changes:
    return {old: new for old, new in zip(former, present, strict=False) if old != new}


def _parts(reply: Any) -> int:
    """The number of values in a reply, and of hundreds of bytes."""
    if isinstance(reply, list):
        return len(reply) if len(reply) > _MOST_OF_REPLIES else sum(map(_parts, reply))
    return 1 + len(reply) // 100 if isinstance(reply, bytes) else 1


def _frozen(part: Any) -> Any:
    return tuple(map(_frozen, part)) if isinstance(part, list | tuple) else part


def _changed(part: Any, changes: _Changes) -> Any:
    if isinstance(part, tuple):
        return tuple([_changed(one, changes) for one in part])
    if isinstance(part, float):
        return changes.get(part, part)
    if isinstance(part, str | int):
        for old, new in changes.items():
            if isinstance(old, str) and old in str(part):
                return type(part)(str(part).replace(old, str(new)))
    return part
