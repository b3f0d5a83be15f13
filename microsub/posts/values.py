"""What arrives in the store and what becomes of it, as values: posts as their documents have them, news, edits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WRITTEN_GUID = "written_guid"
"""The field of an item that holds its guid as its feed wrote it, where that isn't its identity."""


@dataclass(frozen=True, slots=True)
class ItemToStore:
    """A post as its document has it.

    `guid` is its identity in the feed, `wire` its JSON (`formats.wire`) without ids, `published` the ISO time in it,
    `hash` a digest of what readers see of it, `score` Unix seconds, `author` the normalised profile URL or empty,
    `twin` what it shares with copies in other feeds, `extra` further fields to save. `incomplete` says that look-ups
    would add something. `shared` is what it would be known by if it were the only one of its guid, where it isn't.
    """

    guid: str
    wire: bytes
    hash: str
    score: float
    published: str = ""
    author: str = ""
    link: str = ""
    twin: str | None = None
    incomplete: bool = False
    shared: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def written_guid(self) -> str:
        """What identifies it as its feed wrote it, for other programs; else its identity."""
        return self.extra.get(WRITTEN_GUID) or self.guid


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item that is new; `guid` as its feed wrote it, `score` as decimal text. `incomplete` as in `ItemToStore`."""

    id: str
    guid: str
    score: str
    author: str
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class UpdatedItem:
    """An item that was edited; place and id are as before, `guid` as its feed wrote it.

    `author_before` differs where the author changed, and `changed` names the properties of its JSON that are not as
    they were. `untold` is the mark of that edit, to be taken away when it is told (`Intake.told`); empty for what was
    written without an order.
    """

    id: str
    guid: str
    score: str
    author: str
    author_before: str
    changed: tuple[str, ...] = ()
    untold: str = ""
    incomplete: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of one document of that `version`; `unchanged` counts tombstones and outdated edits too. `pending`
    are all items of the feed that are yet to be announced, where that is known.
    """

    new: tuple[StoredItem, ...] = ()
    updated: tuple[UpdatedItem, ...] = ()
    unchanged: int = 0
    version: str = ""
    pending: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Sifted:
    """The news of one document, in its order: posts that the store doesn't know, and posts that it has otherwise.
    `is_open` says that the feed has no validators any more.
    """

    new: tuple[ItemToStore, ...] = ()
    edited: tuple[ItemToStore, ...] = ()
    is_open: bool = False

    @property
    def news(self) -> tuple[ItemToStore, ...]:
        """All of them."""
        return self.new + self.edited
