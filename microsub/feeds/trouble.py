"""Problems of feeds that are notified to their followers."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Trouble(NamedTuple):
    """A problem: `unreadable` since a Unix time, with the last error; `gone` (410); or a new address.

    `moved`: the feed redirects there permanently; `replaced`: its own address shows a page that names the new one.
    """

    kind: Literal["unreadable", "gone", "moved", "replaced"]
    about: str = ""
    since: float = 0.0
