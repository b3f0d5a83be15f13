"""What all timeline scripts are given: keys in the order of their headers, facts on items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from microsub.model.reader import GLOBAL, TimelineItem
from microsub.redis import keys
from microsub.redis.protocol import Arg
from microsub.redis.replies import text
from microsub.redis.scripts import BATCH

GLOBAL_BATCH = 200
"""Most ids per script call that visits all channels of a user; others take `BATCH`."""

_SETS = (keys.posts, keys.unread, keys.read, keys.hidden, keys.hidden_read, keys.gone)


@lru_cache(maxsize=4096)
def set_patterns(user: str) -> tuple[str, ...]:
    """ARGV[1..6] of scripts that walk channels (lua/parts/channels.lua)."""
    return tuple(keys.pattern(key, user) for key in _SETS)


def set_keys(user: str, uid: str) -> tuple[str, ...]:
    """posts, unread, read, hidden, hidden-read, gone of one channel."""
    return tuple(key(user, uid) for key in _SETS)


def rule_keys(user: str, uid: str) -> tuple[str, str, str, str]:
    """muted, muted globally, blocked, blocked globally."""
    return (keys.muted(user, uid), keys.muted(user, GLOBAL), keys.blocked(user, uid), keys.blocked(user, GLOBAL))


def batch_for(uid: str) -> int:
    """How many ids one call may name: fewer where it visits all channels."""
    return GLOBAL_BATCH if uid == GLOBAL else BATCH


def urls(item: TimelineItem) -> list[str]:
    """The URLs by which the item can be muted or blocked."""
    return [item.author, *item.sources] if item.author else list(item.sources)


def counted(parts: Iterable[str]) -> list[Arg]:
    """A list as scripts read it: its length, then its members."""
    listed = list(parts)
    return [len(listed), *listed]


def split(reply: bytes) -> tuple[str, ...]:
    """The ids of a reply 'id id …'."""
    return tuple(text(reply).split())


def distinct(ids: Iterable[str]) -> list[str]:
    """The ids in their order, each once."""
    return list(dict.fromkeys(ids))


class ItemLookup(Protocol):
    """What timelines ask the post store (`posts.store.items.Items`)."""

    async def timeline_items(self, ids: Sequence[str]) -> list[TimelineItem]:
        """What timelines need of these items; those that don't exist any more are left out."""
        ...

    async def in_feed(self, feed_id: str, ids: Sequence[str]) -> set[str]:
        """Those of the ids that belong to the feed."""
        ...

    async def fields(self, ids: Sequence[str], names: Sequence[str]) -> list[list[bytes | None]]:
        """The named fields of each item."""
        ...
