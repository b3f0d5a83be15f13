"""Messages that failed repeatedly, kept with the reason until an admin decides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import structlog

from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text as text_of
from microsub.work.stream import FIRST_ID, Bounds, Message, Stream

log = structlog.get_logger(__name__)

_STAGE, _WHY, _AT, _ID, _DELIVERIES = "!stage", "!why", "!at", "!id", "!deliveries"
"""Names that no message has. A stage is a stream's name, or `entries`: posts that could not be stored."""

_BATCH = 100

BOUNDS = Bounds(messages=10_000, bytes=64 * 1024 * 1024)
"""The size of the stream: weeks of failures, without taking much of Redis' memory."""

_LETTER_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}", re.ASCII)


class DeadLetter(NamedTuple):
    """A message that failed in every attempt.

    `id` is the letter's; `message` is the id in the stream of `stage`, `at` the Unix time when it became a dead letter,
    `fields` its contents.
    """

    id: str
    stage: str
    why: str
    at: float
    message: str
    deliveries: int
    fields: Mapping[str, bytes]


class DeadLetters:
    """The stream of dead letters, which has no consumer; beyond `bounds` the oldest are dropped."""

    def __init__(self, redis: Redis, bounds: Bounds = BOUNDS) -> None:
        self._redis = redis
        self._stream = Stream(redis, "dead")
        self._bounds = bounds

    async def add(self, stage: str, message: Message, why: str, now: float) -> None:
        """Keep `message` of `stage`, which failed for the reason `why`. Letters dropped for it are logged."""
        letter = DeadLetter("", stage, why, now, message.id, message.deliveries, message.fields)
        await self._stream.add([_fields(letter)])
        while not self._bounds.hold(await self._stream.backlog()):
            oldest = await self.list(1)
            for one in oldest:
                log.error(
                    "a dead letter was dropped: there are too many",
                    letter=one.id, stage=one.stage, why=one.why, at=one.at,
                )  # fmt: skip
            await self.drop(oldest)

    async def list(self, count: int = _BATCH, after: str | None = None) -> list[DeadLetter]:
        """Up to `count` letters, oldest first, after the letter `after`."""
        start = f"({after}" if after else "-"
        rows = await self._redis.command("XRANGE", keys.stream("dead"), start, "+", "COUNT", count)
        return [_letter(row) for row in rows]

    async def get(self, letter_id: str) -> DeadLetter | None:
        """The letter of that id; None if there is none (any more)."""
        rows = await self._redis.command("XRANGE", keys.stream("dead"), letter_id, letter_id)
        return _letter(rows[0]) if rows else None

    async def count(self) -> int:
        """The number of letters."""
        return (await self._stream.backlog()).messages

    async def put_back(self, letter: DeadLetter) -> None:
        """Put a message back into its stream with its original time, so that it doesn't undo later ones."""
        first = {FIRST_ID: letter.message.encode()} if is_letter_id(letter.message) else {}
        await Stream(self._redis, letter.stage).add([first | dict(letter.fields)])

    async def drop(self, letters: Sequence[DeadLetter]) -> None:
        """Delete letters with their contents."""
        await self._stream.done([Message(letter.id, _fields(letter)) for letter in letters])


def is_letter_id(text: str) -> bool:
    """Whether `text` has the shape of a dead letter's id."""
    return bool(_LETTER_ID.fullmatch(text))


def _letter(row: Sequence[Any]) -> DeadLetter:
    """A letter from the reply. A foreign entry has no stage, and can be shown and dropped."""
    fields = {text_of(name): value for name, value in zip(row[1][::2], row[1][1::2], strict=True)}
    texts = {name: text_of(fields.pop(name, b"")) for name in (_STAGE, _WHY, _ID, _AT, _DELIVERIES)}
    return DeadLetter(
        id=row[0].decode(),
        stage=texts[_STAGE] or "?",
        why=texts[_WHY],
        at=float(texts[_AT] or 0),
        message=texts[_ID],
        deliveries=int(texts[_DELIVERIES] or 0),
        fields=fields,
    )


def _fields(letter: DeadLetter) -> dict[str, bytes]:
    """The fields of its entry in the stream."""
    head = {
        _STAGE: letter.stage.encode(),
        _WHY: letter.why.encode("utf-8", "replace"),
        _AT: b"%.3f" % letter.at,
        _ID: letter.message.encode(),
        _DELIVERIES: b"%d" % letter.deliveries,
    }
    return head | dict(letter.fields)
