"""Users and what they read, as values: users, channels, subscriptions, cursors, pages."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from enum import IntEnum
from typing import Literal, NamedTuple, Self

import orjson

from microsub.base.errors import InvalidRequest
from microsub.model.settings import NO_SETTINGS, FollowSettings, OwnChannelSettings

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
"""User names and channel uids (`protocol`): safe in a path, a key and a client's settings file."""

GLOBAL = "global"
NOTIFICATIONS = "notifications"
SAVED = "saved"
BUILT_IN = (NOTIFICATIONS, SAVED)
"""The channels that every user has: the first and the last one."""
RESERVED = frozenset({GLOBAL, *BUILT_IN})

MOST_OF_QUERY = 1000
"""Maximum characters of a search."""
MOST_KEPT = 50
"""How many searches a user may keep."""
MOST_OF_KEPT = 100
"""Maximum characters of the name of a kept search."""

ChannelKey = tuple[str, str]
"""User and channel uid."""

View = Literal["all", "unread", "read"]


class Cursor(NamedTuple):
    """A place between items of a timeline: the score (decimal text) and the id of one item.

    In replies it is opaque and consists of `[A-Za-z0-9_-]`. It remains valid after the item has left.
    """

    score: str
    item: str

    def encode(self) -> str:
        """The wire form."""
        return base64.urlsafe_b64encode(f"{self.score} {self.item}".encode()).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str, parameter: str) -> Cursor:
        """Read the wire form back. Raises InvalidRequest, naming `parameter`, for any other text."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("ascii")
        except (binascii.Error, ValueError):
            raw = ""
        if not re.fullmatch(r"-?\d{1,17}(\.\d{1,24})?(e-\d{1,3})? [0-9]{1,19}", raw):
            raise InvalidRequest(
                f"'{parameter}' is not a cursor of this server: found '{text[:80]}', "
                "expected a value taken from 'paging'"
            )
        score, _, item = raw.partition(" ")
        return cls(score, item)


class Credential(NamedTuple):
    """A token as it arrived, not checked yet: its user, and the SHA-256 (hex) of its whole text."""

    user: str
    digest: str


class Grant(NamedTuple):
    """The rights of a checked token; `behind`: posts wait to be added to its user's timelines."""

    user: str
    scopes: frozenset[str]
    behind: bool = False


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as its user sees it; `unread` is the number of unread, unmuted items."""

    uid: str
    name: str
    unread: int = 0
    settings: OwnChannelSettings = field(default_factory=OwnChannelSettings)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A feed in a channel. `name` is the user's own name for it; `followed_at` is Unix time.

    `first_feed` is the id of the feed that was followed first, if another one has replaced it; `settings` are the
    user's own.
    """

    feed: str
    url: str
    followed_at: float
    name: str | None = None
    first_feed: str | None = None
    settings: FollowSettings = NO_SETTINGS

    @property
    def id(self) -> str:
        """The id that apps were given."""
        return self.first_feed or self.feed


class Duplicate(NamedTuple):
    """The same post from another feed. `wins`: the other one wins over this one if both are followed."""

    item: str
    feed: str
    wins: bool = False


@dataclass(frozen=True, slots=True)
class TimelineItem:
    """A stored item, with the data that a timeline needs to add it.

    `score` is decimal text; `author` the normalised profile URL or empty; `sources` the normalised URLs by which the
    item's feed can be muted or blocked; `duplicates` the same post from other feeds. `is_own`: its user wrote it, so it
    arrives as read.
    """

    id: str
    score: str
    author: str = ""
    sources: tuple[str, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    is_own: bool = False


class PageQuery(NamedTuple):
    """The requested page of a timeline. At most one of `before` and `after`; `limit` is 1 to 100.

    `as_fed`: with the texts of the feeds, whatever the user has chosen to see.
    """

    limit: int = 20
    before: Cursor | None = None
    after: Cursor | None = None
    view: View = "all"
    source: str | None = None
    as_fed: bool = False


Order = Literal["newest", "relevance"]


@dataclass(frozen=True, slots=True)
class PostSearchRequest:
    """The requested page of the posts that match a query.

    At most one of `before` and `after`, which are cursors of a search; `limit` is 1 to 100. `counted`: the reply says
    how many posts match.
    """

    text: str
    limit: int = 20
    before: str | None = None
    after: str | None = None
    order: Order = "newest"
    counted: bool = False


@dataclass(frozen=True, slots=True)
class KeptSearch:
    """A search that a user keeps in the list of channels, with the name that they gave it.

    `uid` is the channel in which it searches; with `best`, the best matches come first.
    """

    name: str
    words: str
    uid: str = GLOBAL
    best: bool = False

    @classmethod
    def read(cls, stored: str) -> tuple[Self, ...]:
        """The searches as they are stored with the account."""
        return tuple(cls(*one) for one in orjson.loads(stored or "[]"))


def stored_searches(searches: Iterable[KeptSearch]) -> str:
    """The searches as they are stored, '' for none."""
    rows = [astuple(one) for one in searches]
    return orjson.dumps(rows).decode() if rows else ""


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode in a user's queue: its post, file and title, and the second at which listening goes on."""

    post: str
    url: str
    title: str
    at: int = 0


def episodes_in(stored: str) -> tuple[Episode, ...]:
    """The queue as it is stored with the account; the first episode is the current one."""
    return tuple(Episode(*one) for one in orjson.loads(stored or "[]") if one is not None)


def is_closed(stored: str) -> bool:
    """Whether the player with this queue is closed, until an episode is played or added."""
    return stored.startswith("[null,")


def stored_episodes(queue: Iterable[Episode], *, closed: bool = False) -> str:
    """The queue as it is stored, '' for an empty one; that of a `closed` player begins with a null."""
    rows = [astuple(one) for one in queue]
    return orjson.dumps([None, *rows] if closed else rows).decode() if rows else ""


LONGEST_AUDIO = 10_000_000
"""Seconds up to which a position in an episode is kept."""
MOST_EPISODES, MOST_OF_EPISODES, LONGEST_EPISODE = 20, 8000, 100
"""Episodes of a queue, bytes of it as it is stored, since it is read with each page, and characters of a title."""


def has_room(queue: Sequence[Episode], further: Episode) -> bool:
    """Whether a further episode finds room in the queue."""
    size = len(stored_episodes([*queue, further]).encode())
    return len(queue) < MOST_EPISODES and size <= MOST_OF_EPISODES


class Row(NamedTuple):
    """One row of a page: item id, score text, whether it is read, its channel, whether it is saved."""

    id: str
    score: str
    is_read: bool
    channel: str
    is_saved: bool = False

    @property
    def state(self) -> int:
        """1 if it is unread, and 2 more if it is saved."""
        return (not self.is_read) + 2 * self.is_saved


class PageRows(NamedTuple):
    """A page without the items' JSON, newest first: columns of the same length, and properties of the whole page.

    `states` are those of `Row.state`. `older`: older items follow. `names` are those of all its channels. `resume` is
    the place where a bounded read stopped (views without an index, posts that *All* hides), if that isn't the last row.
    `behind`: posts wait to be added to timelines of this user. `own_names` is the user's number of own names for feeds
    (`views.OwnNames`). `unsorted`: channels whose newest unread items have no order yet.

    Columns, because Redis returns and the splicer takes columns: a `Row` for each of a hundred items is created only
    for callers that need rows. A tuple, like the other values on the way of a page, because a frozen dataclass costs
    three times as much.
    """

    ids: Sequence[str]
    scores: Sequence[str]
    states: bytes
    channels: Sequence[str]
    older: bool
    names: Mapping[str, str]
    resume: Cursor | None = None
    behind: bool = False
    own_names: bytes | None = None
    unsorted: Sequence[str] = ()

    @classmethod
    def of(
        cls, rows: Sequence[Row], older: bool, names: Mapping[str, str], resume: Cursor | None = None,
        *, behind: bool = False, own_names: bytes | None = None,
    ) -> PageRows:  # fmt: skip
        """The page that shows these rows."""
        ids, scores = [row.id for row in rows], [row.score for row in rows]
        states, channels = bytes(row.state for row in rows), [row.channel for row in rows]
        return cls(ids, scores, states, channels, older, names, resume, behind, own_names)

    def ended(self, count: int, *, upward: bool) -> PageRows:
        """The same page with only `count` rows: the newest ones, or (`upward`) the oldest."""
        if count == len(self.ids):
            return self
        part = slice(-count, None) if upward else slice(count)
        columns = (self.ids[part], self.scores[part], self.states[part], self.channels[part])
        return PageRows(*columns, self.older or not upward, self.names, None, self.behind)

    @property
    def rows(self) -> list[Row]:
        """The same as rows."""
        lines = zip(self.ids, self.scores, self.states, self.channels, strict=True)
        return [Row(item, score, not state & 1, channel, state > 1) for item, score, state, channel in lines]

    @property
    def first(self) -> Cursor | None:
        """The place of the newest item."""
        return Cursor(self.scores[0], self.ids[0]) if self.ids else None

    @property
    def last(self) -> Cursor | None:
        """The place of the oldest item."""
        return Cursor(self.scores[-1], self.ids[-1]) if self.ids else None

    def end(self, *, upward: bool = False) -> Cursor | None:
        """The place where reading goes on, towards older items or (`upward`) newer ones; None if nothing was found."""
        return self.resume or (self.first if upward else self.last)


class Reason(IntEnum):
    """The reason why an item left a timeline, as stored in `gone`. Scripts get their constants from here.

    It may come back after UNFOLLOWED, and after DUPLICATE if the other one's feed was unfollowed; never after
    the others.
    """

    READ_EXPIRED = 1
    UNREAD_EXPIRED = 2
    EVICTED = 3
    REMOVED = 4
    MOVED = 5
    BLOCKED = 6
    UNFOLLOWED = 7
    DUPLICATE = 8
    SWEPT = 9

    @property
    def may_return(self) -> bool:
        """Whether an item that left for this reason may be added again."""
        return self in {Reason.UNFOLLOWED, Reason.DUPLICATE}


MOVE = "move"
"""Prefix of the fields of a user's record that note moves of feeds: `move <feed> <uid it leaves>` → `<uid> <time>`."""


@dataclass(frozen=True, slots=True)
class FeedMove:
    """A move of a feed's items between channels, in progress since `begun` (Unix time)."""

    feed: str
    source: str
    target: str
    begun: float


def read_moves(record: Mapping[str, str]) -> list[FeedMove]:
    """The moves in a user's record."""
    found = [(name.split(" "), value.split(" ")) for name, value in record.items() if name.startswith(f"{MOVE} ")]
    return [FeedMove(feed, source, target, float(begun)) for (_, feed, source), (target, begun) in found]


# --- scopes of tokens -------------------------------------------------------------------------------------------------


READ = "read"
ALL_SCOPES = (READ, "follow", "mute", "block", "channels")

POSTING_SCOPES = ("create", "update", "delete", "undelete", "media")
"""Scopes of Micropub, for apps and scripts that post into a channel."""

NATIVE_APP = "greader"
"""The scope of app passwords: it opens the Google Reader API, and nothing else."""

OTHER_NAMES = {"timeline": READ}
"""Scopes that apps request under names not in the specification: Ekstereye asks `create post channels timeline`."""

_ALSO_MEANT = {"timeline": "follow"}
"""Scopes that such an app needs without requesting them: Ekstereye follows feeds."""


def meant(scopes: Sequence[str]) -> tuple[str, ...]:
    """The requested scopes, and those that the app needs without requesting them; its user grants or refuses each."""
    further = (_ALSO_MEANT[scope] for scope in scopes if scope in _ALSO_MEANT)
    return tuple(dict.fromkeys((*scopes, *further)))


def understood(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes that a provider has granted, with our names for other names of the same scope.

    Nothing else is added: an app that may post, but not read, can't read.
    """
    granted = frozenset(scopes)
    return granted | {OTHER_NAMES[scope] for scope in granted if scope in OTHER_NAMES}


def read_scopes(text: str) -> frozenset[str]:
    """The scopes in `text`, which separates them by spaces.

    Raises InvalidRequest if one isn't a scope by RFC 6749 (visible ASCII without quote and backslash), or if there is
    none.
    """
    scopes = text.split()
    for scope in scopes:
        if not all(0x21 <= ord(c) <= 0x7E and c not in '"\\' for c in scope):
            raise InvalidRequest(f"found the scope '{scope}', expected names such as {' '.join(ALL_SCOPES)}")
    if not scopes:
        raise InvalidRequest(f"found no scope, expected one or more of {' '.join(ALL_SCOPES)}")
    return frozenset(scopes)
