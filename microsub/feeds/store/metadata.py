"""A feed's metadata, and which of its changes have not been announced yet.

A change and its note (`untold` in the feed's record) are written in one step. Who has told takes the note away; until
then anybody may tell: the next poll, the next program that describes the feed, or a round of upkeep.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import text
from microsub.redis.scripts import load

UNTOLD = "untold"
"""The record's field with the note: a mark, then the names of what changed."""

_DESCRIBE, _TOLD = load("feed_describe"), load("compare_and_set")


@dataclass(frozen=True, slots=True)
class Described:
    """What a description has changed, and the note of what is to be told, earlier changes included; '' for nothing."""

    changed: tuple[str, ...] = ()
    untold: str = ""


def names_in(note: str) -> tuple[str, ...]:
    """The names of the changed fields in a note."""
    return tuple(note.split()[1:])


def set_or_deleted(fields: Mapping[str, str | None]) -> list[str]:
    """Fields as scripts take them: name, '1' to set or '' to delete, value."""
    return [part for name, value in fields.items() for part in (name, "1" if value is not None else "", value or "")]


def reading_text(reading: float | None) -> str:
    """The number of a reading as scripts take it; '' for what is written by nobody who reads."""
    return "" if reading is None else f"{reading:.3f}"


async def describe(
    redis: Redis,
    feed_id: str,
    said: Mapping[str, str | None],
    if_changed: Mapping[str, str | None],
    reading: float | None = None,
) -> Described:
    """See `Feeds.describe`."""
    fields = [*set_or_deleted(said), *set_or_deleted(if_changed)]
    args: list[Arg] = [reading_text(reading), secrets.token_hex(8), len(said), *fields]
    changed, note = await redis.script(_DESCRIBE, [keys.feed(feed_id)], args)
    return Described(tuple(text(changed).split()), text(note))


async def told(redis: Redis, feed_id: str, note: str) -> None:
    """See `Feeds.told`."""
    await redis.script(_TOLD, [keys.feed(feed_id)], ["untold", note, ""])


async def untold_of(redis: Redis, feed_ids: Sequence[str]) -> dict[str, str]:
    """See `Feeds.untold_of`."""
    names = (UNTOLD, "last_success", "kept")
    rows = await redis.pipeline([("HMGET", keys.feed(feed_id), *names) for feed_id in feed_ids])
    found = zip(feed_ids, rows, strict=True)
    return {feed_id: text(note) for feed_id, (note, read, kept) in found if note and (read or kept)}
