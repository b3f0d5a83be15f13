"""Sources as values: scripts and apps that may post into a user's channel without a feed on the web (`micropub`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from microsub.configuration.model import SourceConfig
from microsub.feeds.internal import InternalAddress

KIND = "source"
"""Internal feeds of sources."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source of `user`; `id` is unique among that user's sources.

    `name` is what readers see. `seed` is a secret from which the addresses of its posts are derived. `app` is the
    `client_id` of the app that got it, or empty. Times are Unix seconds; `changed` is when the name last changed. `me`
    is its user's profile URL where an app posts, otherwise empty; it isn't stored.
    """

    user: str
    id: str
    name: str
    seed: str
    created: float
    changed: float = 0.0
    app: str = ""
    me: str = ""

    @property
    def address(self) -> str:
        """The address of its feed."""
        return str(InternalAddress(self.user, KIND, self.id))


class SourceStore(Protocol):
    """The sources of all users, as other features need them. Methods with a source's id may raise NotFound."""

    async def with_channels(self, user: str) -> list[tuple[Source, str | None]]:
        """The user's sources, the oldest first, each with its channel, or None if its user has ended that."""

    async def get(self, user: str, source: str) -> Source:
        """The source with that id."""

    async def put(self, user: str, source: str, settings: SourceConfig, now: float) -> None:
        """Create or change the source as backend.json declares it."""

    async def revoke(self, user: str, source: str) -> None:
        """End the source with its token and its app's grants. Its posts stay."""
