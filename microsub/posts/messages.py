"""Messages about posts on their way into the store and on to timelines.

    ingest ── ItemsStored ─→ delivery
       ├───── ItemIncomplete ─→ look-ups ── ItemsStored ─→ delivery
       └───── articles_wanted ─→ articles

Messages contain only ids; `EntriesFound`, for dead letters, contains the posts themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from microsub.posts.values import ItemToStore
from microsub.redis.replies import text
from microsub.work import Bounds

Fields = dict[str, bytes]


def version_of(reading: float) -> str:
    """The version of a reading, or of a program's write at a Unix time: text that sorts like these numbers."""
    return f"{round(reading * 1000):015d}-000000000"


@dataclass(frozen=True, slots=True)
class EntriesFound:
    """Posts of one feed that were found at a Unix time and could not be stored.

    `reading` is the number of the reading that found them (`Feeds.begin_reading`); without it their time is used.
    """

    feed: str
    found: float
    items: tuple[ItemToStore, ...]
    reading: float | None = None

    def to_fields(self) -> Fields:
        """Fields with each post's JSON unparsed: it is parsed only when needed."""
        fields: Fields = {"feed": self.feed.encode(), "found": b"%.6f" % self.found}
        if self.reading is not None:
            fields["reading"] = b"%.3f" % self.reading
        heads = [_head(item) for item in self.items]
        fields["items"] = orjson.dumps(heads)
        for place, item in enumerate(self.items):
            fields[str(place)] = item.wire
        return fields

    @property
    def version(self) -> str:
        """The version of the message: of two messages for one post, the one with the higher version wins."""
        return version_of(self.found if self.reading is None else self.reading)

    @classmethod
    def of(cls, fields: Mapping[str, bytes]) -> EntriesFound:
        """Parse a message. Raises ValueError or KeyError for anything else."""
        heads = orjson.loads(fields["items"])
        items = tuple(
            ItemToStore(wire=fields[str(place)], common=head.pop("twin", None), **head)
            for place, head in enumerate(heads)
        )
        reading = float(fields["reading"]) if "reading" in fields else None
        return cls(text(fields["feed"]), float(fields["found"]), items, reading)


@dataclass(frozen=True, slots=True)
class ItemsStored:
    """Items of one feed for timelines.

    `new` ones are added; for `edited` ones the rules are checked again. Those and `reworded` ones, whose author is
    unchanged, are offered again to channels that had filtered them out. `target` is the only timeline (user, channel
    uid) to fill, which may have had them before; None means all followers of the feed.
    """

    feed: str
    new: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    target: tuple[str, str] | None = None
    reworded: tuple[str, ...] = ()

    def to_fields(self) -> Fields:
        """Ids separated by spaces."""
        fields = {"feed": self.feed.encode(), "new": _joined(self.new), "edited": _joined(self.edited)}
        if self.reworded:
            fields["reworded"] = _joined(self.reworded)
        return fields | ({"target": "/".join(self.target).encode()} if self.target else {})

    @classmethod
    def of(cls, fields: Mapping[str, bytes]) -> ItemsStored:
        """Parse a message. Raises ValueError or KeyError for anything else."""
        target = None
        if "target" in fields:
            user, _, uid = text(fields["target"]).partition("/")
            target = (user, uid)
        new, edited = _split(fields["new"]), _split(fields["edited"])
        return cls(text(fields["feed"]), new, edited, target, _split(fields.get("reworded", b"")))


@dataclass(frozen=True, slots=True)
class ItemIncomplete:
    """A stored item whose author or reply context can be looked up; `version` is the incomplete one.

    `asked`: how often the look-up was requested again. Messages don't have it.
    """

    item: str
    version: str
    asked: int = 0

    def to_fields(self) -> Fields:
        """Two texts."""
        return {"item": self.item.encode(), "version": self.version.encode()}

    @classmethod
    def of(cls, fields: Mapping[str, bytes]) -> ItemIncomplete:
        """Parse a message. Raises KeyError for anything else."""
        return cls(text(fields["item"]), text(fields["version"]))


ARTICLES = Bounds(messages=20_000)
"""Maximum number of feeds that wait for articles; beyond it, their new posts remain as their feeds have them."""


def articles_wanted(feed_id: str) -> Fields:
    """The message for a feed with posts whose full text its followers may want."""
    return {"feed": feed_id.encode()}


_HEAD = ("guid", "hash", "published", "author", "link", "incomplete", "shared", "extra")


def _head(item: ItemToStore) -> dict[str, object]:
    found = {name: value for name in _HEAD if (value := getattr(item, name))} | {"score": item.score}
    return found | ({"twin": item.common} if item.common else {})


def _joined(ids: Sequence[str]) -> bytes:
    return " ".join(ids).encode()


def _split(ids: bytes) -> tuple[str, ...]:
    return tuple(text(ids).split())
