"""The data that one look has read from the store."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from microsub.admin.check.findings import Finding
from microsub.feeds import FeedRecord
from microsub.model.reader import Subscription

_Part = TypeVar("_Part")

_CHUNK = 4096
_NONE = -1

CLAIMED, INDEXED, SHOWN = 1, 2, 4
"""Marks: a guid leads to the item; its feed's index has it; a channel shows or hides it."""


class KnownItems:
    """Items by id (a small integer, as text). Takes nine bytes per possible item."""

    def __init__(self) -> None:
        self._feeds: dict[int, array[int]] = {}
        self._marks: dict[int, bytearray] = {}

    def note(self, item_id: str, feed: int) -> None:
        """Note that this item exists. `feed` is 0 for a post of no feed."""
        chunk, place = divmod(int(item_id), _CHUNK)
        if chunk not in self._feeds:
            self._feeds[chunk] = array("q", [_NONE]) * _CHUNK
            self._marks[chunk] = bytearray(_CHUNK)
        self._feeds[chunk][place] = feed

    def __contains__(self, item_id: str) -> bool:
        return self.feed(item_id) is not None

    def feed(self, item_id: str) -> int | None:
        """The item's feed, 0 for a post of no feed; None if there is no such item."""
        chunk, place = divmod(int(item_id), _CHUNK)
        feeds = self._feeds.get(chunk)
        return None if feeds is None or feeds[place] == _NONE else feeds[place]

    def mark(self, item_id: str, mark: int) -> None:
        """Set a mark, if the item exists."""
        chunk, place = divmod(int(item_id), _CHUNK)
        if chunk in self._marks:
            self._marks[chunk][place] |= mark

    def marked(self, item_id: str, mark: int) -> bool:
        """Whether the item has all of these marks."""
        chunk, place = divmod(int(item_id), _CHUNK)
        return chunk in self._marks and self._marks[chunk][place] & mark == mark

    def __iter__(self) -> Iterator[str]:
        """The ids of all items, in order."""
        for chunk in sorted(self._feeds):
            for place, feed in enumerate(self._feeds[chunk]):
                if feed != _NONE:
                    yield str(chunk * _CHUNK + place)


@dataclass(slots=True)
class Seen:
    """The data that a look has read so far. Times are Unix seconds.

    `last_item` is the newest item id at the beginning: newer ones are being added. `user_keys` and `channel_keys` are
    the kinds of keys that exist per user, and per user and channel uid; `feed_keys` their times to live by feed and
    kind. `listed` are the users in the list of users, `recorded` those that have a record, `channels` the uids in each
    user's lists. `followed` are the channels that follow each feed, `fresh` those that began so recently that the
    feed's own list may lack them, `followers` the channels in the feed's own list. `urls` is `feeds:by-url`. `handles`
    are the users' own handles of passkeys by user, `handle_index` users by handle. `polled` are the feeds in the
    schedule, `output_feeds` each user's output feeds that have a record, `media` each user's files by their tokens.
    `found` are broken invariants, `examined` counts what was examined by its kind.
    """

    now: float
    last_item: int = 0
    items: KnownItems = field(default_factory=KnownItems)
    user_keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    channel_keys: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    feed_keys: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    output_feeds: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    media: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    listed: set[str] = field(default_factory=set)
    recorded: set[str] = field(default_factory=set)
    channels: dict[str, list[str]] = field(default_factory=dict)
    followed: dict[str, dict[tuple[str, str], Subscription]] = field(default_factory=lambda: defaultdict(dict))
    fresh: set[tuple[str, str, str]] = field(default_factory=set)
    followers: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    records: dict[str, FeedRecord] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    polled: set[str] = field(default_factory=set)
    handles: dict[str, str] = field(default_factory=dict)
    handle_index: Mapping[str, str] = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)
    examined: dict[str, int] = field(default_factory=lambda: defaultdict(int))


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
    """A flat reply of pairs as a dict; if a scan returned a name twice, the first value counts."""
    found: dict[str, str] = {}
    for name, value in zip(flat[0::2], flat[1::2], strict=True):
        found.setdefault(name.decode(), value.decode())
    return found


def scores(flat: Sequence[bytes]) -> dict[str, float]:
    """A flat reply of members and scores as a dict."""
    return {member.decode(): float(score) for member, score in zip(flat[0::2], flat[1::2], strict=True)}
