"""What a case is: something a publisher does, and what must be true of its feed afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from microsub.feeds.record import FeedRecord
from tests.hostile.machine import GROWTH
from tests.hostile.publisher import Act, Publisher

DAY = 86_400

Check = Callable[["Outcome"], None]


@dataclass(frozen=True)
class Outcome:
    """How things are after the last poll: the feed's record, the wire JSON of its posts, and what was asked."""

    feed: FeedRecord
    posts: list[str]
    site: Publisher
    wait: float | None
    """Seconds from the poll to the next one; None: never again."""

    @property
    def text(self) -> str:
        return "".join(self.posts)


@dataclass(frozen=True)
class Case:
    """`act` answers at /feed and at `paths`. `health` is how the feed's `last_error` begins; empty: all is well.

    `says` stands in it too; `posts` is how many of its posts are in the timeline; `wait` bounds the seconds to the next
    poll (None: never again); `scheme` and `host` make its address; `polls` is how often it is asked;
    `brief` says that only time ends its poll, `spins` its parsing, so that these limits are short ones; `growth` bounds
    the memory in bytes.
    """

    act: Act
    health: str = ""
    says: str = ""
    posts: int | None = None
    wait: tuple[float, float] | None = (290, 2.5 * DAY)
    host: str = "hostile.test"
    certificate: str | None = None
    tls: bool = False
    polls: int = 1
    paths: dict[str, Act] = field(default_factory=dict)
    path: str = "/feed"
    check: Check | None = None
    brief: bool = False
    spins: bool = False
    growth: int = GROWTH
