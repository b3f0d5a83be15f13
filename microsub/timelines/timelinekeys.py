"""Common arguments of the timeline scripts: keys in the order of their headers, facts about items."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from microsub.model.reader import GLOBAL, SAVED, TimelineItem
from microsub.redis import keys
from microsub.redis.replies import text

ID_BATCH = 200
"""Maximum number of ids per script call that changes items, so that it blocks Redis for only a few milliseconds.

Each can be in every channel, and in a channel with a million read items each changes a piece of its own of the times.
"""

_SETS = (keys.posts, keys.unread, keys.read, keys.hidden, keys.hidden_read, keys.gone)


@lru_cache(maxsize=4096)
def set_patterns(user: str) -> tuple[str, ...]:
    """ARGV[1..6] of scripts that visit channels (lua/parts/channels.lua)."""
    return tuple(keys.pattern(key, user) for key in _SETS)


def set_keys(user: str, uid: str) -> tuple[str, ...]:
    """posts, unread, read, hidden, hidden-read, gone of one channel."""
    return tuple(key(user, uid) for key in _SETS)


def rule_keys(user: str, uid: str) -> tuple[str, str, str, str]:
    """muted, muted globally, blocked, blocked globally; for `saved` two keys of its own that are never written."""
    everywhere = SAVED if uid == SAVED else GLOBAL
    return (
        keys.muted(user, uid),
        keys.muted(user, everywhere),
        keys.blocked(user, uid),
        keys.blocked(user, everywhere),
    )


def arrival_keys(user: str) -> tuple[str, str]:
    """The order of arrival (lua/parts/arrivals.lua)."""
    return keys.arrivals(user), keys.arrivals_more(user)


def shown_keys(user: str) -> tuple[str, ...]:
    """The keys for `note_all` (lua/parts/timeline.lua), for scripts that show or remove items."""
    return *arrival_keys(user), keys.live_events(user)


def timeline_keys(user: str, uid: str) -> tuple[str, ...]:
    """All keys of one timeline, in the order of scripts that add, remove or move items."""
    return *set_keys(user, uid), *rule_keys(user, uid), *shown_keys(user)


def urls(item: TimelineItem) -> list[str]:
    """The URLs by which the item can be muted or blocked."""
    return [item.author, *item.sources] if item.author else list(item.sources)


def url_lines(item: TimelineItem) -> str:
    """The same URLs as scripts read them."""
    return "\n".join(urls(item))


def split(reply: bytes) -> tuple[str, ...]:
    """The ids of a reply 'id id …'."""
    return tuple(text(reply).split())


def distinct(ids: Iterable[str]) -> list[str]:
    """The ids in their order, each once."""
    return list(dict.fromkeys(ids))
