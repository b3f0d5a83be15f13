"""A case: an action of a publisher, and what must be true of its feed afterwards."""

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
    """The state after the last poll: the feed's record, the wire JSON of its posts, and the requests for it."""

    feed: FeedRecord
    posts: list[str]
    site: Publisher
    wait: float | None
    """Seconds from the poll to the next one; None: no further poll."""

    @property
    def text(self) -> str:
        return "".join(self.posts)


@dataclass(frozen=True)
class Case:
    """`act` answers at /feed and at `paths`. `health` is how the feed's `last_error` begins; empty: no error.

    `says` is another part of it; `posts` is how many of its posts are in the timeline; `wait` bounds the seconds to the
    next poll (None: no further poll); `scheme` and `host` make its address; `polls` is how often it is polled;
    `brief` means that only the time limit ends its poll, `spins` its parsing, so that these limits are short; `growth`
    bounds the memory in bytes.
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
