"""Taking items into timelines: the arguments and replies of lua/timeline_add.lua."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from microsub.model.reader import TimelineItem
from microsub.store import keys
from microsub.store.port import Arg
from microsub.store.timelinekeys import counted, rule_keys, set_keys, split


@dataclass(frozen=True, slots=True)
class Added:
    """What became of the items given to one timeline, as ids; an item that it knew already is in none of these.

    `added` came in unread, `read` as read (found older than the follow), `hidden` muted; `suppressed` stays out
    (blocked, left before, or another feed's copy stands); `evicted` left to make room. `subscribed` is False where the
    channel doesn't follow the feed (any more), or doesn't exist (any more): then nothing happened.
    """

    added: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    suppressed: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    subscribed: bool = True


@dataclass(frozen=True, slots=True)
class Target:
    """A timeline that items go to, and its limit (0: none)."""

    user: str
    uid: str
    limit: int


@dataclass(frozen=True, slots=True)
class Filling:
    """How the items of one call count as read: `fresh` newest ones of a first fill stay unread; `since`, once a call
    has found the time of following, lets the next call go on with the same fill.
    """

    fresh: int
    since: bytes = b""


def add_keys(target: Target) -> list[str]:
    """KEYS of lua/timeline_add.lua."""
    user, uid = target.user, target.uid
    own = [keys.channel(user, uid), keys.channel_feeds(user, uid), keys.channel_unfilled(user, uid)]
    return [*own, *set_keys(user, uid), *rule_keys(user, uid)]


def add_args(feed_id: str, items: Sequence[bytes | Arg], limit: int, filling: Filling, now: float) -> list[Arg]:
    """ARGV of lua/timeline_add.lua; `items` as `item_args` makes them."""
    return [feed_id, now, int(now), limit, filling.fresh, filling.since, *items]


def newest_first(items: Sequence[TimelineItem]) -> list[TimelineItem]:
    """The order in which the script wants them, and in which the timeline will hold them."""
    return sorted(items, key=lambda item: (float(item.score), item.id), reverse=True)


def item_args(items: Sequence[TimelineItem]) -> list[Arg]:
    """The items as the script reads them."""
    args: list[Arg] = []
    for item in items:
        args += [item.id, item.score, item.author, *counted(item.sources), len(item.twins)]
        for twin in item.twins:
            args += [twin.item, twin.feed, int(twin.wins)]
    return args


def added(reply: list[bytes]) -> Added:
    """The script's reply as a value; `{'channel'}` and `{'feed'}` mean that nothing was subscribed."""
    if reply[0]:
        return Added(subscribed=False)
    came, read, hidden, suppressed, evicted = (split(ids) for ids in reply[1:6])
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
