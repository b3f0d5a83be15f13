"""What the parts of a look share: what was learnt so far, and reading in batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from microsub.store.check.places import Places
from microsub.store.counters import MOST
from microsub.store.ids import is_id
from microsub.store.port import Command, Redis

BATCH = 500
"""Most commands of one round trip."""

COUNT = 200
"""Members that one step of a walk through a long key takes."""

_Part = TypeVar("_Part")


@dataclass(slots=True)
class Ids:
    """Ids of one kind: where their counter stood at `first`, the `newest` that there is, and the largest one that is
    `mentioned` anywhere.
    """

    first: int = 0
    newest: int = 0
    mentioned: int = 0

    def see(self, one: str) -> None:
        """This one is there."""
        self.newest = max(self.newest, int(one))

    def mention(self, one: str) -> None:
        """Something tells of this one, if it is an id that could have been given out."""
        if is_id(one) and int(one) <= MOST:
            self.mentioned = max(self.mentioned, int(one))


@dataclass(slots=True)
class Counters:
    """What was seen of the ids that counters give out."""

    items: Ids = field(default_factory=Ids)
    feeds: Ids = field(default_factory=Ids)


@dataclass(slots=True)
class Seen:
    """What a look has learnt so far, for the parts that come later. Times are Unix seconds.

    `begun_at_item` is the newest item id at the beginning: what is newer is on its way. `wrong` are keys of a wrong
    type, which nothing reads. `channel_keys` names the kinds of keys that there are per user and channel uid;
    `feed_keys` their times to live per feed and kind. `followed` says which channels are to get a feed and
    when they followed it, `fresh` which of these are so new that the feed's own list may lack them, `wanted` by which
    URL a feed was followed. `urls` is `feeds:by-url`.
    """

    now: float
    begun_at_item: int = 0
    wrong: set[str] = field(default_factory=set)
    places: Places = field(default_factory=Places)
    users: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    channel_keys: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    tokens: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    feed_keys: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    hosts: set[str] = field(default_factory=set)
    channels: dict[str, list[str]] = field(default_factory=dict)
    followed: dict[str, dict[tuple[str, str], float]] = field(default_factory=lambda: defaultdict(dict))
    fresh: set[tuple[str, str, str]] = field(default_factory=set)
    wanted: dict[str, str] = field(default_factory=dict)
    records: dict[str, FeedFacts] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    counters: Counters = field(default_factory=Counters)


@dataclass(frozen=True, slots=True)
class FeedFacts:
    """What other parts need of a feed's record; `kept` says that it stays without followers."""

    url: str
    gone: bool
    created: float
    next_poll: float | None
    kept: bool = False


class Reader:
    """Reads in batches, leaving out keys of a wrong type."""

    def __init__(self, redis: Redis, wrong: set[str]) -> None:
        self.redis = redis
        self._wrong = wrong

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """The replies in order; None for keys of a wrong type."""
        good = [command for command in commands if command[1] not in self._wrong]
        replies: list[Any] = []
        for start in range(0, len(good), BATCH):
            replies += await self.redis.pipeline(good[start : start + BATCH])
        answers = iter(replies)
        return [next(answers) if command[1] not in self._wrong else None for command in commands]

    async def walk(self, verb: str, keys: Sequence[str]) -> dict[str, list[bytes]]:
        """The whole content of sets (SSCAN), hashes (HSCAN) or sorted sets (ZSCAN), flat, by key; in batches."""
        found: dict[str, list[bytes]] = {key: [] for key in keys}
        cursors: dict[str, bytes] = dict.fromkeys(keys, b"0")
        while cursors:
            asked = list(cursors)
            replies = await self.ask([(verb, key, cursors[key], "COUNT", COUNT) for key in asked])
            for key, reply in zip(asked, replies, strict=True):
                if reply is None or int(reply[0]) == 0:
                    del cursors[key]
                else:
                    cursors[key] = reply[0]
                found[key] += reply[1] if reply is not None else []
        return found

    async def stream(self, verb: str, key: str) -> AsyncIterator[list[bytes]]:
        """The content of one long key, batch by batch, flat."""
        cursor: Any = b"0"
        while key not in self._wrong:
            cursor, found = await self.redis.command(verb, key, cursor, "COUNT", COUNT)
            if found:
                yield found
            if int(cursor) == 0:
                return


def batched(parts: Iterable[_Part], size: int) -> Iterable[list[_Part]]:
    """`parts` in lists of at most `size`."""
    batch: list[_Part] = []
    for part in parts:
        batch.append(part)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def pairs(flat: Sequence[bytes]) -> dict[str, str]:
    """A flat reply of pairs as a dict; the first mention counts. Names that are no text `contents` finds."""
    found: dict[str, str] = {}
    for name, value in zip(flat[0::2], flat[1::2], strict=True):
        if is_text(name):
            found.setdefault(name.decode(), value.decode("utf-8", "replace"))
    return found


def is_text(value: bytes) -> bool:
    """Whether the bytes are text at all."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
