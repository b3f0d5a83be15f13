"""The keys that timeline scripts are given, in the order that their headers list, and their common arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from microsub.model.reader import GLOBAL, TimelineItem
from microsub.redis import keys
from microsub.redis.protocol import Arg
from microsub.redis.replies import text

BATCH = 1000
"""Most ids per script call; GLOBAL_BATCH where it visits all channels of a user. A call holds up Redis for a few ms."""
GLOBAL_BATCH = 200

_SETS = (keys.posts, keys.unread, keys.read, keys.hidden, keys.hidden_read, keys.gone)
_Part = TypeVar("_Part")


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


def batches(parts: Sequence[_Part], size: int = BATCH) -> Iterator[Sequence[_Part]]:
    """`parts` in slices of at most `size`."""
    for start in range(0, len(parts), size):
        yield parts[start : start + size]


def batch_for(uid: str) -> int:
    """How many ids one call may name; one that visits thousands of channels looks at fewer of them, and says so."""
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
