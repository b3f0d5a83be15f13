"""Problems of feeds that are notified to their followers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FeedUnreadable:
    """The feed could not be read since the Unix time `since`; `why` is the last poll's error."""

    since: float
    why: str


@dataclass(frozen=True, slots=True)
class FeedGone:
    """The publisher answered 410 Gone."""


@dataclass(frozen=True, slots=True)
class FeedMoved:
    """The feed redirects permanently to another address, or its own shows a page that names that one (`is_page`)."""

    to: str
    is_page: bool = False


Trouble = FeedUnreadable | FeedGone | FeedMoved
