"""Posts on their way into the store: values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from microsub.formats.entry_id import GUID_DIGEST

ANY = ""
"""A version that is never refused, for writes without an order."""

FORMER_GUID = "former_guid"
"""The field of an item with the guid that it had before its present one."""

WRITTEN_GUID = "written_guid"
"""The field of an item with its guid as the feed wrote it, if that isn't its identity."""

OWN = "own"
"""The field of an item with a digest of what the post itself says (`entries.own_digest`)."""


BY_USER = "by_user"
"""The field of an item that its user wrote with an app."""


@dataclass(frozen=True, slots=True)
class ItemToStore:
    """A post from a document.

    `guid` is its identity in the feed, `wire` its JSON (`formats.wire`) without ids, `published` the ISO time in it,
    `hash` a digest of its content that users see, `score` Unix seconds, `author` the normalised profile URL or empty,
    `common` the identity that it shares with duplicates, `extra` further fields to save. `incomplete`: look-ups would
    add something. `shared`, if not empty, is the identity that it would have if no other post had its guid.
    """

    guid: str
    wire: bytes
    hash: str
    score: float
    published: str = ""
    author: str = ""
    link: str = ""
    common: str | None = None
    incomplete: bool = False
    shared: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def written_guid(self) -> str:
        """The guid as its feed wrote it, for other programs; otherwise its identity."""
        return self.extra.get(WRITTEN_GUID) or self.guid


@dataclass(frozen=True, slots=True)
class Listing:
    """The guids of all entries of a document, as joined digests (`formats.entry_id.guid_digest`).

    `left`: the document before, as far as it is known, listed an entry that this one doesn't. `dated`: all entries have
    a date.
    """

    guids: bytes
    left: bool
    dated: bool

    def __len__(self) -> int:
        return len(self.guids) // GUID_DIGEST

    @property
    def digests(self) -> frozenset[bytes]:
        """The digest of each guid."""
        return frozenset(self.guids[at : at + GUID_DIGEST] for at in range(0, len(self.guids), GUID_DIGEST))


@dataclass(frozen=True, slots=True)
class WrittenItem:
    """A new or edited item; `guid` as its feed wrote it, `incomplete` as in `ItemToStore`.

    For an edit: whether its author may have changed, the changed properties of its JSON, and in `note` what to delete
    once it is announced (`PostWriter.announced`), '' without an order. `by_feed`: only what comes from the feed itself
    has changed, its title, icon or author, which is no edit of the post.
    """

    id: str
    guid: str
    incomplete: bool = False
    author_changed: bool = False
    changed: tuple[str, ...] = ()
    note: str = ""
    by_feed: bool = False
    growth: int = 0
    """Bytes by which the stored JSON is larger than before."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The posts of a feed that were written in that `version`.

    `outbox` are all items in the feed's outbox, None if it wasn't read. Its `noted` items are edits of posts that
    delivery already has; for all others that isn't known.
    """

    new: tuple[WrittenItem, ...] = ()
    updated: tuple[WrittenItem, ...] = ()
    version: str = ""
    outbox: frozenset[str] | None = None
    noted: frozenset[str] = frozenset()
