"""Common arguments of the timeline scripts: keys in the order of their headers, facts about items."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from functools import lru_cache

from microsub.model.reader import GLOBAL, SAVED, TimelineItem
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text, texts
from microsub.redis.scripts import BATCH, batches

GLOBAL_BATCH = 200
"""Maximum number of ids per script call that visits all channels of a user; for other calls, `BATCH`."""

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


def batch_for(uid: str) -> int:
    """The maximum number of ids per call: lower if the call visits all channels."""
    return GLOBAL_BATCH if uid == GLOBAL else BATCH


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


# --- the items and feeds that a user's channels refer to, which are therefore no garbage ------------------------------


async def subscriptions(redis: Redis, user: str) -> set[str]:
    """Ids of the feeds that the user's channels follow, removed channels included."""
    uids = await every_channel(redis, user)
    replies = await redis.pipeline([("HKEYS", keys.channel_feeds(user, uid)) for uid in uids])
    return {text(feed) for reply in replies for feed in reply}


async def references(redis: Redis, user: str) -> AsyncIterator[list[str]]:
    """Ids that the user's channels, removed ones included, show or hide; in batches, possibly with repetitions."""
    for uid in await every_channel(redis, user):
        for key in (keys.posts(user, uid), keys.hidden(user, uid)):
            async for ids in members(redis, key):
                yield ids


async def every_channel(redis: Redis, user: str) -> list[str]:
    """The uids of the user's channels, and of removed ones, which can come back."""
    lists = await redis.pipeline([("ZRANGE", key, 0, -1) for key in (keys.channels(user), keys.removed_channels(user))])
    return [text(uid) for reply in lists for uid in reply]


async def members_at(redis: Redis, sets: Sequence[str], ids: Sequence[str]) -> set[str]:
    """The given ids that are in any of these sorted sets. One round trip."""
    commands = [(batch, ("ZMSCORE", key, *batch)) for key in sets for batch in batches(ids)]
    replies = await redis.pipeline([command for _, command in commands])
    return {
        item
        for (batch, _), scores in zip(commands, replies, strict=True)
        for item, score in zip(batch, scores, strict=True)
        if score is not None
    }


async def members(redis: Redis, key: str) -> AsyncIterator[list[str]]:
    """All ids that are in a sorted set from the beginning to the end of the scan, in batches.

    SCAN guarantees exactly that, even if the set changes meanwhile; an id may be repeated.
    """
    cursor = b"0"
    while True:
        cursor, found = await redis.command("ZSCAN", key, cursor, "COUNT", BATCH)
        ids = distinct(texts(found[0::2]))
        if ids:
            yield ids
        if cursor == b"0":
            return
