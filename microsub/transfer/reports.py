"""The report of an import of posts, or of its dry run; and how posts of a file are parsed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from microsub.base.errors import ParseError
from microsub.base.plaintext import counted, escaped

P = TypeVar("P")
R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Called with the number of feeds or lines done, and of all."""

_SHOWN = 20
"""How many skipped items the text lists individually."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item of a channel or file that can't be imported, and why."""

    channel: str
    item: str
    why: str


@dataclass(slots=True)
class ChannelImport:
    """The import's result in one channel; `feeds` counts its follows.

    `unread` and `read` count posts by their state in the source, `of_no_feed` those that no feed lists, `undated` those
    without a valid date, `known` those that were here before.
    """

    uid: str
    name: str
    feeds: int = 0
    unread: int = 0
    read: int = 0
    of_no_feed: int = 0
    undated: int = 0
    known: int = 0


@dataclass(slots=True)
class OutputImport:
    """The import's result for one output feed; `known`: the user already has one of that name."""

    name: str
    known: bool
    items: int = 0


@dataclass(slots=True)
class ImportReport:
    """The result of an import, or (`dry_run`) its preview. `notes` are sentences for people."""

    user: str
    dry_run: bool
    channels: list[ChannelImport] = field(default_factory=list)
    outputs: list[OutputImport] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)

    def as_text(self) -> str:
        """For people: a line per channel and output feed, skipped items with the reason, and totals."""
        lines = [_line(one) for one in self.channels]
        for one in self.outputs:
            lines.append(
                f"output feed {one.name}: {counted(one.items, 'item')}{', known already' if one.known else ''}"
            )
        lines += [
            f"skipped {one.channel and f'{one.channel}: '}{one.item[:60]}: {one.why}" for one in self.skipped[:_SHOWN]
        ]
        if len(self.skipped) > _SHOWN:
            lines.append(f"skipped {len(self.skipped) - _SHOWN} more; --json names all")
        lines += self.notes
        posts = sum(one.unread + one.read for one in self.channels)
        verb = "would be imported" if self.dry_run else "taken over"
        known = sum(one.known for one in self.channels)
        of_them = f" ({known} known already)" if known else ""
        lines.append(f"{counted(posts, 'post')}{of_them} {verb} for {self.user}, {len(self.skipped)} skipped")
        return "\n".join(map(escaped, lines))


def _line(one: ChannelImport) -> str:
    parts = [counted(one.feeds, "feed"), f"{one.unread} unread", f"{one.read} read"]
    for count, what in ((one.of_no_feed, "of no feed"), (one.undated, "undated"), (one.known, "known already")):
        if count:
            parts.append(f"{count} {what}")
    return f"{one.uid} ({one.name}): {', '.join(parts)}"


async def one_by_one(parse: Callable[[Sequence[P]], Awaitable[list[R | None]]], posts: Sequence[P]) -> list[R | None]:
    """What a parser makes of the posts; None for a post that costs too much, which doesn't end the others."""
    try:
        return await parse(posts)
    except ParseError:
        if len(posts) == 1:
            return [None]
    half = len(posts) // 2
    return [*await one_by_one(parse, posts[:half]), *await one_by_one(parse, posts[half:])]
