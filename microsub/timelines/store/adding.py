"""Taking items into timelines: the arguments and replies of lua/timeline_add.lua."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from microsub.model.reader import TimelineItem
from microsub.redis import keys
from microsub.redis.protocol import Arg, ScriptCall
from microsub.redis.scripts import load
from microsub.timelines.store.timelinekeys import split, urls

_ADD = load("timeline_add")

AGAIN, DOUBT = "a", "d"
"""Items that the store offers to a timeline once more, and the same where all that was read there is lost."""


UNFILTERED = b"*"
"""In place of filters: these items come in whatever the channel filters, with the limits that are given."""


@dataclass(frozen=True, slots=True)
class Added:
    """What became of the items given to one timeline, as ids; an item that it knew already is in none of these.

    `added` came in unread, `read` as read (found older than the follow), `hidden` muted; `suppressed` stays out
    (blocked, left before, or another feed's copy stands); `evicted` left to make room. What the channel filters out is
    in none of these either. `subscribed` is False where the channel doesn't follow the feed (any more), or doesn't
    exist (any more): then nothing happened.
    """

    added: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    suppressed: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    subscribed: bool = True

    @property
    def taken(self) -> int:
        """How many came in, in whatever state."""
        return len(self.added) + len(self.read) + len(self.hidden)

    @property
    def all_taken(self) -> tuple[str, ...]:
        """What came in, in whatever state."""
        return self.added + self.read + self.hidden

    def without(self, ids: Collection[str]) -> Added:
        """The same as if those items had stayed out."""
        states = [tuple(one for one in state if one not in ids) for state in (self.added, self.read, self.hidden)]
        return replace(self, added=states[0], read=states[1], hidden=states[2])


@dataclass(frozen=True, slots=True)
class Target:
    """A timeline that items go to. Where its channel's settings say nothing else, it holds `limit` items (0: all) and
    takes the `fresh` newest of a first fill as unread.
    """

    user: str
    uid: str
    limit: int
    fresh: int = 10


class Adding:
    """How far items have come into one timeline: by which filters they are chosen (`chosen_by`, see the script), what
    the next call must know of a first fill that goes on, and what has become of those so far.
    """

    __slots__ = ("chosen_by", "parts", "since", "step", "target")

    def __init__(self, target: Target, chosen_by: bytes) -> None:
        self.target = target
        self.chosen_by = chosen_by
        self.since = b""
        self.step = 0
        self.parts: list[Added] = []

    def call(self, feed_id: str, now: str, items: Sequence[Arg]) -> ScriptCall:
        """The next call of the script; `items` as `item_args` makes them, `now` in decimals."""
        target = self.target
        script_keys = _KEYS.replace(_USER, target.user).replace(_UID, target.uid).split("\n")
        return _ADD, script_keys, [feed_id, now, target.limit, target.fresh, self.since, self.chosen_by, *items]

    def heard(self, reply: list[bytes], steps: int) -> bool:
        """Take in the reply to the last call, of `steps` in all; whether there is another call to make."""
        if reply[0] == b"filters":
            # All from the beginning, by other filters: what is in already is known there.
            self.step = 0
            self.chosen_by = reply[1]
            return True
        self.parts.append(added(reply))
        if reply[0]:
            return False
        self.since = reply[6]
        self.step += 1
        return self.step < steps

    def result(self) -> Added:
        """What has become of the items."""
        return together(self.parts) if self.parts else Added()


# One text with all keys of the script, so that the keys of a timeline are made by two replacements.
_USER, _UID = "\1", "\2"
_KEYS = "\n".join(
    [
        *(
            key(_USER, _UID)
            for key in (
                *(keys.channel, keys.channel_feeds, keys.posts, keys.unread, keys.read, keys.gone),
                *(keys.channel_unfilled, keys.hidden, keys.hidden_read),
            )
        ),
        *(
            keys.muted(_USER, _UID),
            keys.muted(_USER, "global"),
            keys.blocked(_USER, _UID),
            keys.blocked(_USER, "global"),
        ),
    ]
)


def newest_first(items: Sequence[TimelineItem]) -> list[TimelineItem]:
    """The order in which the script wants them, and in which the timeline will hold them."""
    return sorted(items, key=lambda item: (float(item.score), item.id), reverse=True)


def item_args(items: Sequence[TimelineItem], again: str = "") -> list[Arg]:
    """The items as the script reads them; `again` is `AGAIN` or `DOUBT` where they may have been there before."""
    args: list[Arg] = []
    for item in items:
        twins = " ".join(f"{twin.item} {twin.feed} {int(twin.wins)}" for twin in item.twins)
        args += (item.id, item.score, "\n".join(urls(item)), twins, ("1" if item.first else "") + again)
    return args


def added(reply: list[bytes]) -> Added:
    """The script's reply as a value; `{'channel'}` and `{'feed'}` mean that nothing was subscribed."""
    if reply[0]:
        return Added(subscribed=False)
    came, read, hidden, suppressed, evicted = (split(ids) if ids else () for ids in reply[1:6])
    return Added(came, read, hidden, suppressed, evicted)


def together(parts: Sequence[Added]) -> Added:
    """Several batches for one timeline as one result."""
    if len(parts) == 1:
        return parts[0]
    return Added(
        added=tuple(item for one in parts for item in one.added),
        read=tuple(item for one in parts for item in one.read),
        hidden=tuple(item for one in parts for item in one.hidden),
        suppressed=tuple(item for one in parts for item in one.suppressed),
        evicted=tuple(item for one in parts for item in one.evicted),
        subscribed=all(one.subscribed for one in parts),
    )
