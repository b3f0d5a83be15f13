"""The pipeline's queues: Redis Streams with one consumer group each.

https://redis.io/docs/latest/develop/data-types/streams/

A message stays in its stream until it is done: the length is the backlog, and nothing is ever trimmed. The consumer
that takes a message owns it as long as it sends heartbeats; another consumer takes over the messages of a dead one. So
every message is handled at least once, and its handler must be idempotent.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from microsub.redis import keys
from microsub.redis.protocol import Arg, Command, Redis, ScriptCall
from microsub.redis.replies import text, texts
from microsub.redis.scripts import load

GROUP = "workers"
"""The only consumer group of each stream: each message goes to one consumer."""

FIRST_ID = "first"
"""The field with a retried message's first id."""

_ADD = load("stream_add")
_DONE = load("stream_done")
_HAND_BACK = load("stream_hand_back")
_LEAVE = load("stream_leave")
_RELEASE = load("lease")

_LONG_IDLE = 30 * 86400 * 1000
"""Idle milliseconds given to a message that is handed back, so that the next look takes it over."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a consumer owns.

    `deliveries` counts its deliveries, this one included; `size` is the bytes that it adds to the backlog.
    """

    id: str
    fields: Mapping[str, bytes]
    deliveries: int = 1

    def __str__(self) -> str:
        """Its id."""
        return self.id

    @property
    def size(self) -> int:
        """Bytes of its values."""
        return size_of(self.fields)

    @property
    def added(self) -> float:
        """Unix time, by Redis' clock, when it was added; for a retried message, the first time."""
        return int(self.fields.get(FIRST_ID, self.id.encode()).partition(b"-")[0]) / 1000


class Backlog(NamedTuple):
    """The messages in a stream, waiting or being handled: their number, and the `bytes` of their values."""

    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a stream's backlog, beyond which its writers pause."""

    messages: int = 10_000
    bytes: int = 256 * 1024 * 1024

    def leave_room(self, backlog: Backlog) -> bool:
        """Whether a stream with that backlog accepts more messages."""
        return backlog.messages < self.messages and backlog.bytes < self.bytes

    def hold(self, backlog: Backlog) -> bool:
        """Whether that backlog is within the bounds; a single message always is."""
        return backlog.messages < 2 or (backlog.messages <= self.messages and backlog.bytes <= self.bytes)


class Stream:
    """One queue. `name` is a stage's name, or `dead`, which has no group."""

    def __init__(self, redis: Redis, name: str) -> None:
        self.name = name
        self._redis = redis
        self._key = keys.stream(name)

    async def add(self, messages: Sequence[Mapping[str, bytes]]) -> list[str]:
        """Append messages, all or none; returns their ids. Raises StoreFull and StoreUnavailable."""
        if not messages:
            return []
        return texts(await self._redis.script(self.adding(messages)))

    def adding(self, messages: Sequence[Mapping[str, bytes]]) -> ScriptCall:
        """The call that `add` makes, to be sent with others."""
        return _ADD(self.name, bounds=(0, 0), messages=_args(messages))

    async def add_within(self, bounds: Bounds, messages: Sequence[Mapping[str, bytes]]) -> bool:
        """Append messages, all or none; False if the stream is full. Raises StoreFull and StoreUnavailable."""
        limits = (bounds.messages, bounds.bytes)
        return bool(await self._redis.script(_ADD(self.name, bounds=limits, messages=_args(messages))))

    def adding_within(self, bounds: Bounds, messages: Sequence[Mapping[str, bytes]]) -> ScriptCall:
        """The call that appends messages unless the stream is full.

        If it is full, the call notes that messages were left out (`left_out`), and replies 0.
        """
        noting = {"left_out": keys.stream_left_out(self.name), "mark": secrets.token_hex(8)}
        return _ADD(self.name, bounds=(bounds.messages, bounds.bytes), **noting, messages=_args(messages))

    async def left_out(self) -> str | None:
        """A mark, different each time, if messages were left out and not added since; otherwise None."""
        mark = await self._redis.command("GET", keys.stream_left_out(self.name))
        return text(mark) if mark is not None else None

    async def made_up(self, mark: str) -> None:
        """Note that all messages left out when `left_out` returned that mark have been added."""
        await self._redis.script(_RELEASE(lease=keys.stream_left_out(self.name), token=mark, left=0))

    async def take(self, consumer: str, count: int) -> list[Message]:
        """Up to `count` new messages, oldest first; `consumer` owns them until they are done."""
        command = ("XREADGROUP", "GROUP", GROUP, consumer, "COUNT", count, "STREAMS", self._key, ">")
        reply = await self._in_group(command)
        return [] if not reply else [message_of(entry) for entry in _of_first_stream(reply)]

    async def take_over(self, consumer: str, idle: float, count: int) -> list[Message]:
        """Take over up to `count` messages whose owners were silent for `idle` seconds."""
        if count < 1:
            return []
        # XAUTOCLAIM looks at only ten times `count` messages: busy ones at the front can hide the idle ones.
        silent = ("IDLE", int(idle * 1000)) if idle else ()
        rows = await self._in_group(("XPENDING", self._key, GROUP, *silent, "-", "+", count))
        if not rows:
            return []
        handed_out = {row[0]: int(row[3]) + 1 for row in rows}
        claimed = await self._redis.command("XCLAIM", self._key, GROUP, consumer, int(idle * 1000), *handed_out)
        return [message_of(entry, handed_out[entry[0]]) for entry in claimed]

    async def keep(self, consumer: str, ids: Sequence[str]) -> set[str]:
        """Send a heartbeat for messages; returns those that `consumer` still owns."""
        if not ids:
            return set()
        try:
            rows = await self._redis.pipeline([("XPENDING", self._key, GROUP, id_, id_, 1, consumer) for id_ in ids])
        except ResponseError as error:
            if _missing(error):
                return set(ids)  # the stream was deleted: no other consumer can have them
            raise
        mine = [id_ for id_, row in zip(ids, rows, strict=True) if row]
        if mine:
            await self._redis.command("XCLAIM", self._key, GROUP, consumer, 0, *mine, "JUSTID")
        return set(mine)

    async def done(self, messages: Sequence[Message]) -> None:
        """Remove messages that have had all their effects. Idempotent."""
        if messages:
            done = [part for one in messages for part in (one.id, one.size)]
            await self._redis.script(_DONE(self.name, group=GROUP, messages=done))

    async def hand_back(self, consumer: str, messages: Sequence[Message]) -> None:
        """Release messages that `consumer` won't finish, without counting the attempt."""
        if messages:
            left = [part for one in messages for part in (one.id, max(0, one.deliveries - 1))]
            call = _HAND_BACK(stream=self._key, group=GROUP, consumer=consumer, idle=_LONG_IDLE, messages=left)
            try:
                await self._redis.script(call)
            except ResponseError as error:
                if not _missing(error):
                    raise

    async def newest(self) -> str | None:
        """The id of the newest message that isn't done, or None."""
        return await self._first("XREVRANGE", "+", "-")

    async def oldest_time(self) -> float | None:
        """Unix time, by Redis' clock, when the oldest waiting message was added, or None."""
        oldest = await self._first("XRANGE", "-", "+")
        return int(oldest.partition("-")[0]) / 1000 if oldest else None

    async def done_until(self, message_id: str) -> bool:
        """Whether that message and all before it are done."""
        return await self._first("XRANGE", "-", message_id) is None

    async def backlog(self) -> Backlog:
        """The messages that aren't done yet."""
        return (await backlogs(self._redis, [self.name]))[self.name]

    async def forget_consumers(self, idle: float) -> int:
        """Forget consumers without messages that were idle for `idle` seconds; returns how many."""
        return int(await self._redis.script(_LEAVE(stream=self._key, group=GROUP, idle=int(idle * 1000))))

    async def _first(self, verb: str, start: str, end: str) -> str | None:
        found = await self._redis.command(verb, self._key, start, end, "COUNT", 1)
        return text(found[0][0]) if found else None

    async def _in_group(self, command: Command) -> Any:
        """Run a command of the group, creating the group if needed; None if the stream doesn't exist."""
        try:
            return await self._redis.command(*command)
        except ResponseError as error:
            if not _missing(error):
                raise
        try:
            await self._redis.command("XGROUP", "CREATE", self._key, GROUP, "0")
        except ResponseError as error:
            if _missing(error):
                return None
            if not str(error).startswith("BUSYGROUP"):
                raise
        return await self._redis.command(*command)


async def backlogs(redis: Redis, names: Sequence[str]) -> dict[str, Backlog]:
    """The backlogs of these streams, by name. One round trip."""
    commands: list[Command] = []
    for name in names:
        commands += [("XLEN", keys.stream(name)), ("GET", keys.stream_bytes(name))]
    replies = await redis.pipeline(commands)
    return {name: Backlog(replies[2 * n], int(replies[2 * n + 1] or 0)) for n, name in enumerate(names)}


def _args(messages: Sequence[Mapping[str, bytes]]) -> list[Arg]:
    args: list[Arg] = []
    for fields in messages:
        args += [size_of(fields), len(fields) * 2]
        for name, value in fields.items():
            args += [name, value]
    return args


def size_of(fields: Mapping[str, bytes]) -> int:
    """Bytes of a message's values."""
    return sum(map(len, fields.values()))


def _of_first_stream(reply: Any) -> Any:
    """The entries of the only stream in a reply of XREADGROUP: a list in RESP2, a map in RESP3."""
    return next(iter(reply.values())) if isinstance(reply, dict) else reply[0][1]


def message_of(entry: Sequence[Any], deliveries: int = 1) -> Message:
    """The message in an entry of XRANGE."""
    parts = entry[1]
    fields = {text(name): value for name, value in zip(parts[::2], parts[1::2], strict=True)}
    return Message(text(entry[0]), fields, deliveries)


def _missing(error: ResponseError) -> bool:
    """Whether the stream or its group doesn't exist yet."""
    return "NOGROUP" in str(error) or "requires the key to exist" in str(error)
