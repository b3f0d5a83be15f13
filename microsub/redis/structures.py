"""Values, hashes, sets and sorted sets in Redis, with typed requests.

A request is sent when it is awaited, or together with others. One that asks or changes nothing isn't sent. A structure
with a `life`, in seconds, lives that long from each write on. Names are texts; values are bytes as Redis has them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from microsub.redis.protocol import Arg, Command, Redis, ScriptCall
from microsub.redis.replies import raw_fields, text, texts
from microsub.redis.scripts import batches, load

One = TypeVar("One")
Two = TypeVar("Two")
Three = TypeVar("Three")

Change = tuple[str, Arg, Arg]
"""A name, its value as it was read, and its new value; '' for none."""

_BATCH = 500
_first = itemgetter(0)


class Request(Generic[One]):
    """Commands, and the value that `read` makes of their replies. Awaiting it sends them, in one round trip."""

    def __init__(self, redis: Redis, commands: Sequence[Command], read: Callable[[list[Any]], One]) -> None:
        self.redis = redis
        self.commands = commands
        self.read = read

    def __await__(self) -> Generator[Any, None, One]:
        return self._sent().__await__()

    async def _sent(self) -> One:
        if len(self.commands) == 1:
            return self.read([await self.redis.command(*self.commands[0])])
        return self.read(await self.redis.pipeline(self.commands) if self.commands else [])


@overload
async def together(one: Request[One], two: Request[Two], /) -> tuple[One, Two]: ...


@overload
async def together(one: Request[One], two: Request[Two], three: Request[Three], /) -> tuple[One, Two, Three]: ...


@overload
async def together(*requests: Request[One]) -> list[One]: ...


async def together(*requests: Request[Any]) -> Any:
    """The values of independent requests, which are sent in one round trip."""
    commands = [command for one in requests for command in one.commands]
    replies = iter(await requests[0].redis.pipeline(commands) if commands else ())
    return [one.read([*islice(replies, len(one.commands))]) for one in requests]


def existing(redis: Redis, *keys: str) -> Request[int]:
    """The number of these keys that there are."""
    return Request(redis, [("EXISTS", *keys)], _first)


def rows(redis: Redis, keys: Iterable[str], names: Sequence[str]) -> Request[list[list[bytes | None]]]:
    """The values of these names in each of several hashes, None for missing ones."""
    return Request(redis, [("HMGET", key, *names) for key in keys], list)


class _Structure:
    def __init__(self, redis: Redis, key: str, life: int = 0) -> None:
        self.key = key
        self._redis = redis
        self._life = life

    @classmethod
    def at(cls, redis: Redis, key: Callable[..., str], life: int = 0) -> Callable[..., Self]:
        """A function from the values in a key to the structure there."""
        return lambda *values: cls(redis, key(*values), life)

    def clear(self) -> Request[int]:
        """Delete all of it; 1 if there was anything."""
        return Request(self._redis, [("DEL", self.key)], _first)

    def left(self) -> Request[int]:
        """The seconds that it has to live, -1 without a limit, -2 if there is nothing."""
        return Request(self._redis, [("TTL", self.key)], _first)

    def renew(self) -> Request[None]:
        """Begin its life again."""
        return Request(self._redis, [("EXPIRE", self.key, self._life)], lambda _: None)

    def _asking(self, read: Callable[[Any], One], *command: Arg) -> Request[One]:
        return Request(self._redis, [command], lambda replies: read(replies[0]))

    def _asking_of(self, some: Collection[Arg], verb: str, read: Callable[[Any], One]) -> Request[One]:
        """About some names: none of them, no question."""
        commands = [(verb, self.key, *some)] if some else []
        return Request(self._redis, commands, lambda replies: read(replies[0] if replies else ()))

    def _writing(self, *commands: Command) -> Request[None]:
        living = [("EXPIRE", self.key, self._life)] if self._life and commands else []
        return Request(self._redis, [*commands, *living], lambda _: None)


class Value(_Structure):
    """One value."""

    def get(self) -> Request[bytes | None]:
        """The value, or None."""
        return Request(self._redis, [("GET", self.key)], _first)

    def set(self, value: Arg) -> Request[None]:
        """Replace it."""
        return Request(self._redis, [self._setting(value)], lambda _: None)

    def claim(self, value: Arg) -> Request[bool]:
        """Set it if there is none; whether it was set."""
        return self._asking(lambda reply: reply is not None, *self._setting(value), "NX")

    def take(self) -> Request[bytes | None]:
        """The value, or None; it is deleted."""
        return Request(self._redis, [("GETDEL", self.key)], _first)

    def add(self, more: int) -> Request[int]:
        """Add to a number; the sum."""
        return self._asking(int, "INCRBY", self.key, more)

    def _setting(self, value: Arg) -> Command:
        return ("SET", self.key, value, "EX", self._life) if self._life else ("SET", self.key, value)


class Members(_Structure):
    """A set."""

    def all(self) -> Request[list[bytes]]:
        """All members, in no order."""
        return self._asking(list, "SMEMBERS", self.key)

    def some(self, most: int) -> Request[list[bytes]]:
        """Up to that many members, chosen at random."""
        return self._asking(list, "SRANDMEMBER", self.key, most)

    def has(self, members: Collection[Arg]) -> Request[Sequence[int]]:
        """For each of these, whether it is a member."""
        return self._asking_of(members, "SMISMEMBER", list)

    def delete(self, members: Collection[Arg]) -> Request[int]:
        """Remove members."""
        return self._asking_of(members, "SREM", lambda reply: reply or 0)


class _Rows(_Structure):
    _GET: ClassVar[str]
    _COUNT: ClassVar[str]
    _DELETE: ClassVar[str]

    def get_many(self, names: Collection[str]) -> Request[list[bytes | None]]:
        """The values or scores of these names, None for missing ones."""
        return self._asking_of(names, self._GET, list)

    def count(self) -> Request[int]:
        """The number of names."""
        return self._asking(int, self._COUNT, self.key)

    def delete(self, *names: str) -> Request[int]:
        """Delete names; the number of those that there were."""
        return self._asking_of(names, self._DELETE, lambda reply: reply or 0)


class Hash(_Rows):
    """Values by name."""

    _GET, _COUNT, _DELETE = "HMGET", "HLEN", "HDEL"

    def get(self, name: str) -> Request[bytes | None]:
        """The value of that name, or None."""
        return Request(self._redis, [("HGET", self.key, name)], _first)

    def known(self, names: Collection[str]) -> Request[dict[str, str]]:
        """The values of those of these names that there are, as texts."""
        return self._asking_of(names, "HMGET", partial(_known, names))

    def all(self) -> Request[dict[str, bytes]]:
        """Everything."""
        return self._asking(raw_fields, "HGETALL", self.key)

    def names(self) -> Request[list[str]]:
        """All names."""
        return self._asking(texts, "HKEYS", self.key)

    def has(self, name: str) -> Request[bool]:
        """Whether there is a value of that name."""
        return self._asking(bool, "HEXISTS", self.key, name)

    def set(self, rows: Mapping[str, Arg]) -> Request[None]:
        """Set values."""
        return self._writing(*([("HSET", self.key, *chain(*rows.items()))] if rows else []))

    def set_new(self, rows: Mapping[str, Arg]) -> Request[None]:
        """Set the values of names that there aren't yet."""
        return self._writing(*(("HSETNX", self.key, *row) for row in rows.items()))

    def add(self, rows: Mapping[str, float]) -> Request[None]:
        """Add to numbers."""
        return self._writing(*(("HINCRBYFLOAT", self.key, name, repr(more)) for name, more in rows.items()))

    async def change(self, *rows: Change, **user: str) -> bool:
        """Change values together; False, without a change, if one isn't the one that was read.

        With the key `user` of a user's record, also if that user doesn't exist or is disabled.
        """
        return bool(await self._redis.script(load("compare_and_set")(record=self.key, **user, fields=[*chain(*rows)])))

    async def create(self, name: str, value: Arg, owner: str, most: int | str) -> int:
        """Set the value of a new name, if there is the key `owner`; the reply of lua/field_create.lua."""
        call = load("field_create")(owner=owner, record=self.key, name=name, value=value, most=most)
        return int(await self._redis.script(call))

    async def overwrite(self, rows: Mapping[str, Arg], known: str = "") -> None:
        """Make these the only values, if `id` has the known value or none is given."""
        fields = [*chain(*rows.items())]
        call = load("record_replace")(record=self.key, known=known, seconds=self._life, fields=fields)
        await self._redis.script(call)

    async def change_each(self, rows: Iterable[Change]) -> list[bool]:
        """Change values, each if it is the one that was read. One round trip."""
        calls = [load("compare_and_set")(record=self.key, fields=row) for row in rows]
        return [bool(reply) for reply in await self._redis.scripts(calls)] if calls else []


class Scores(_Rows):
    """A sorted set: numbers by name."""

    _GET, _COUNT, _DELETE = "ZMSCORE", "ZCARD", "ZREM"

    def set(self, rows: Mapping[str, Arg]) -> Request[None]:
        """Set the scores of names."""
        return self._writing(*([("ZADD", self.key, *chain(*map(reversed, rows.items())))] if rows else []))

    def raise_to(self, name: str, score: Arg) -> Request[None]:
        """Set a score, unless the name has a higher one."""
        return self._writing(("ZADD", self.key, "GT", score, name))

    def names(self, first: int = 0, last: int = -1) -> Request[list[str]]:
        """Names by rank, the lowest score first."""
        return self._asking(texts, "ZRANGE", self.key, first, last)

    def beginning(self, prefix: str) -> Request[list[str]]:
        """The ASCII names that begin so, of names with the same score."""
        return self._asking(texts, "ZRANGEBYLEX", self.key, f"[{prefix}", f"({prefix}\x7f")

    def trim(self, most: int, until: float = -math.inf) -> Request[None]:
        """Delete all names but the last ones, and those with scores up to that."""
        over = ("ZREMRANGEBYRANK", self.key, 0, -1 - most), ("ZREMRANGEBYSCORE", self.key, "-inf", until)
        return Request(self._redis, over, lambda _: None)

    def last(self) -> Request[float | None]:
        """The highest score; None without names."""
        return self._asking(lambda row: float(row[1]) if row else None, "ZRANGE", self.key, -1, -1, "WITHSCORES")

    def some(self, most: int) -> Request[list[tuple[str, float]]]:
        """Up to that many names, chosen at random."""
        return self._asking(_scored, "ZRANDMEMBER", self.key, most, "WITHSCORES")

    def at_scores(self, low: float, high: float) -> Request[list[bytes]]:
        """All names with scores in these bounds, lowest first."""
        return self._asking(list, "ZRANGEBYSCORE", self.key, low, high)

    def between(self, low: str, high: str, count: int, beyond: int = 0) -> Request[list[tuple[str, float]]]:
        """Up to `count` names with scores in these bounds, lowest first, without the first ones."""
        bounds = (low, high, "WITHSCORES", "LIMIT", beyond, count)
        return self._asking(_scored, "ZRANGEBYSCORE", self.key, *bounds)


class Log(_Structure):
    """A stream of which at least the last `kept` entries stay: each an id, with names and values in turn."""

    def adding(self, entries: Iterable[Sequence[Arg]], kept: int) -> list[ScriptCall]:
        """The calls that append entries in a row, to be sent with others."""
        parts = [part for entry in entries for part in (len(entry), *entry)]
        return [load("log_add")(stream=self.key, kept=kept, entries=parts)] if parts else []

    async def add(self, entries: Iterable[Sequence[Arg]], kept: int) -> None:
        """Append entries in a row."""
        await self._redis.scripts(self.adding(entries, kept))

    def after(self, entry: str, count: int) -> Request[Sequence[tuple[bytes, Sequence[bytes]]]]:
        """Up to `count` entries after the one of that id, oldest first."""
        return self._asking(list, "XRANGE", self.key, f"({entry}", "+", "COUNT", count)

    def first(self) -> Request[str | None]:
        """The id of the oldest entry."""
        return self._asking(_id, "XRANGE", self.key, "-", "+", "COUNT", 1)

    def last(self) -> Request[str | None]:
        """The id of the newest entry."""
        return self._asking(_id, "XREVRANGE", self.key, "+", "-", "COUNT", 1)


def _id(rows: Sequence[Sequence[bytes]]) -> str | None:
    return text(rows[0][0]) if rows else None


def _known(names: Iterable[str], values: Sequence[bytes | None]) -> dict[str, str]:
    return {name: text(value) for name, value in zip(names, values, strict=False) if value is not None}


def _scored(flat: Sequence[bytes]) -> list[tuple[str, float]]:
    return [(name, float(score)) for name, score in zip(texts(flat[0::2]), flat[1::2], strict=True)]


async def replace(structure: Hash | Scores, rows: Mapping[str, Arg]) -> None:
    """Make these the only rows, in batches; it is never empty meanwhile."""
    former = await structure.names()
    for some in batches([*rows], _BATCH):
        await structure.set({name: rows[name] for name in some})
    for some in batches([name for name in former if name not in rows], _BATCH):
        await structure.delete(*some)
