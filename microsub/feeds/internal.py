"""Internal feeds: of one user, without an address on the web, and never polled.

What a user's sources post lies in such feeds, and what this server has to say to the user. Channels follow them and
list them as they do others, and posts come in by `posts.ingest` and are delivered, read, cleaned up and exported as any
others. `Following.follow` makes one.

The address says whose it is. No app, list or file can name it as a feed to follow, it has no host, so the schedule has
no turn for it, and no post in it is taken for the same as another feed's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ADDRESS = re.compile(r"microsub:([A-Za-z0-9_-]{1,64})/([a-z]+)/([A-Za-z0-9_-]{1,64})")


@dataclass(frozen=True, slots=True)
class InternalAddress:
    """The address of an internal feed; `name` is unique among the user's feeds of that `kind`."""

    user: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"microsub:{self.user}/{self.kind}/{self.name}"

    @classmethod
    def of(cls, url: str) -> InternalAddress | None:
        """The address read back; None for any other URL."""
        found = _ADDRESS.fullmatch(url)
        return cls(*found.groups()) if found is not None else None
