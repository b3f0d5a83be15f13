"""What an import of posts did, or would do, in the words that all of them share."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from microsub.model.plaintext import counted, escaped

_SHOWN = 20
"""Skipped items that the text names one by one."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item that can't be taken over, of a channel or a file, and why."""

    channel: str
    item: str
    why: str


@dataclass(slots=True)
class ChannelImport:
    """What one channel brought; `feeds` are those that it follows.

    `unread` and `read` are posts by their state there, `of_no_feed` those of them that no feed lists, `undated` those
    without a usable date; `known` were here before.
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
    """What came with one output feed: its items; `known` says that the user has a feed of that name already."""

    name: str
    known: bool
    items: int = 0


@dataclass(slots=True)
class ImportReport:
    """What an import did, or (`dry_run`) would do. `notes` are sentences for people."""

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
        """For people: a line per channel and output feed, what was skipped and why, and the sum."""
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
        verb = "would be taken over" if self.dry_run else "taken over"
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
