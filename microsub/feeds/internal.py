"""Internal feeds: each belongs to one user, has no address on the web, and is never polled.

They contain the posts of a user's sources, and this server's notices to the user. Channels follow and list them like
other feeds, and their posts are stored by `posts.ingest`, delivered, read, cleaned up and exported like others.
`Following.follow` creates one.

The address names the owner. No app, list or file can follow it, it has no host, so the schedule never has a turn for
it, and none of its posts is a duplicate of another feed's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ADDRESS = re.compile(r"microsub:([A-Za-z0-9_-]{1,64})/([a-z]+)/([A-Za-z0-9_-]{1,64})")

NOTICES = "notices"
"""The kind of the feeds in the channel `notifications` that this server writes."""


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
        """Parse the address; None for any other URL."""
        found = _ADDRESS.fullmatch(url)
        return cls(*found.groups()) if found is not None else None
