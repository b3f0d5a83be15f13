"""How often people who are signed in may make this server ask apps what they say of themselves. Strangers make it ask
for sign-ins alone, which `turnstile` bounds, and for pages in the doctor's care.
"""

from __future__ import annotations

from microsub.errors import TooManyRequests
from microsub.identity.local.attempts import Allowance
from microsub.identity.store.rate_limits import AttemptCounts

OF_APPS = Allowance(free=60, first=2, longest=2)
"""The first ones at once, then one in so many seconds, until a day has passed without any."""


class Asking:
    """Lets questions through, or refuses them. All processes count together."""

    def __init__(self, counts: AttemptCounts) -> None:
        self._counts = counts

    async def app(self, user: str, now: float) -> None:
        """An app that sends a user here is asked what it says of itself. Raises TooManyRequests."""
        wait, _ = await self._counts.take(f"apps {user}", OF_APPS.pauses(), now)
        if wait:
            seconds = f"{wait} second{'' if wait == 1 else 's'}"
            raise TooManyRequests(f"Too many apps have sent you here in a short time. Wait {seconds}.", wait)
