"""Which text of a post a user sees: the feed's, or the full text from the page that it links to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Literal

from microsub.base.bounded_cache import BoundedCache
from microsub.model.reader import Subscription
from microsub.model.settings import FullTextChoice
from microsub.posts import Texts
from microsub.timelines.channels.follows import in_turns
from microsub.timelines.channels.store import Channels

ShownText = Literal["", "own", "full"]
"""The text of a post that somebody sees or wants to see; empty for no other than usual."""

_KEPT = 300.0
"""Seconds for which choices are remembered: follows without settings of their own change no number."""
_MOST_KNOWN = 10_000
_ORDER = ("on", "auto", "off")


def choice_of(subscription: Subscription, since: float) -> FullTextChoice:
    """A follower's choice; `since` is the Unix time from which on full texts are automatic for newly followed feeds."""
    return subscription.settings.full_text or ("auto" if subscription.followed_at >= since else "off")


def strongest(choices: Iterable[FullTextChoice]) -> FullTextChoice:
    """The one choice of a user who follows a feed in several channels, or of all followers."""
    return min(choices, key=_ORDER.index, default="off")


class TextChoices:
    """The texts that users have chosen, by feed. Nothing is read for items without a full text."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._known: BoundedCache[str, tuple[bytes, float, Mapping[str, FullTextChoice]]] = BoundedCache(_MOST_KNOWN)

    async def of(
        self, user: str, data: Sequence[bytes | Texts | None], number: bytes | None = None
    ) -> list[bytes | None]:
        """The JSON of each item with the user's text. `number` is as in `PageRows.own_names`, None if unread."""
        if not any(isinstance(item, Texts) for item in data):
            return [item for item in data if not isinstance(item, Texts)]
        choices = await self.choices(user, number)
        return [shown_text(item, choices) if isinstance(item, Texts) else item for item in data]

    async def choices(self, user: str, number: bytes | None = None) -> Mapping[str, FullTextChoice]:
        """The user's choices, by feed; for a feed that isn't listed, it is `auto`."""
        if number is None:
            number = await self._channels.number_of_names(user)
        known = self._known.get(user)
        if known is not None and known[0] == number and time.monotonic() - known[1] < _KEPT:
            return known[2]
        since = await self._channels.automatic_since()
        found: dict[str, FullTextChoice] = {}
        followed = await self._channels.all_subscriptions(user)
        async for one in in_turns(chain(*followed.values())):
            choice = choice_of(one, since)
            found[one.feed] = strongest([choice, found.get(one.feed, choice)])
        choices = {feed: choice for feed, choice in found.items() if choice != "auto"}
        self._known[user] = number, time.monotonic(), choices
        return choices


def shown_text(item: Texts, choices: Mapping[str, FullTextChoice]) -> bytes:
    """The JSON of an item for somebody with these choices."""
    feed = item.own[item.own.rfind(b'"', 0, -2) + 1 : -2].decode()
    choice = choices.get(feed, "auto")
    return item.full if choice == "on" or (choice == "auto" and item.automatic) else item.own
