"""What the endpoints of all apps do around a request of a user, besides answering it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from microsub.accounts.quotas import UserQuotas
from microsub.model.reader import Credential


@dataclass(frozen=True, slots=True)
class AppRequests:
    """The steps before and after the requests of apps. Times are Unix seconds.

    `changed` is called after a change of declarations of backend.json, and makes the server read those of all users;
    `topics_changed` with a user whose topics may have changed, `used` with each valid token.
    """

    quotas: UserQuotas
    used: Callable[[Credential, float], None]
    changed: Callable[[], None]
    topics_changed: Callable[[str, float], Awaitable[object]]

    async def begun(self, user: str, now: float) -> None:
        """Count a request of a user whose token was checked. Raises TooManyRequests."""
        await self.quotas.count(user, now)

    async def ended(self, user: str, now: float, *, declarations: bool, topics: bool) -> None:
        """Announce which data of the user a request may have changed: declarations of backend.json, hub topics."""
        if declarations:
            self.changed()
        if topics:
            await self.topics_changed(user, now)
