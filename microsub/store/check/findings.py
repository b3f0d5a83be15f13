"""What a check finds, as values: the sentence that is broken, where, and how to mend it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from microsub.model.reader import TimelineItem
from microsub.store.port import Arg, Command


@dataclass(frozen=True, slots=True)
class Commands:
    """Plain commands that do no harm when all is well meanwhile."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A script that judges anew before it writes."""

    script: str
    keys: tuple[str, ...]
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class ChannelSets:
    """Restore the sets of one channel for one id."""

    user: str
    uid: str
    item: str


@dataclass(frozen=True, slots=True)
class TakeOut:
    """Take an id out of a channel, with a reason, so that it doesn't come back."""

    user: str
    uid: str
    item: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Bring an item to where the channel's rules want it."""

    user: str
    uid: str
    item: TimelineItem


@dataclass(frozen=True, slots=True)
class Queue:
    """Have a feed polled at `due` (Unix seconds), and its host in line."""

    feed: str
    host: str
    due: float


@dataclass(frozen=True, slots=True)
class Adopt:
    """Write a user's missing record, with the channel that everybody has."""

    user: str


@dataclass(frozen=True, slots=True)
class PutAside:
    """Rename a key whose type is wrong, so that what belongs there can be written."""

    key: str


@dataclass(frozen=True, slots=True)
class Follow:
    """Bring a feed's followers to what the channels say (`services.mending`)."""


Remedy = Commands | Call | ChannelSets | TakeOut | Settle | Queue | Adopt | PutAside | Follow


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken invariant. `area` is the module that found it, `subject` the key or member that it concerns.

    Two findings are the same when all but the remedy agrees. Without a remedy a person must decide.
    """

    area: str
    subject: str
    what: str
    remedy: Remedy | None = field(default=None, compare=False)


@dataclass(slots=True)
class Findings:
    """What one look has found and how much it has examined; parts of the check add to it."""

    found: list[Finding] = field(default_factory=list)
    examined: Counter[str] = field(default_factory=Counter)

    def add(self, area: str, subject: str, what: str, remedy: Remedy | None = None) -> None:
        """Note a finding."""
        self.found.append(Finding(area, subject, what, remedy))
