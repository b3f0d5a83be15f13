"""How the pages of each channel look: the user's choices, kept with the account for all browsers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from microsub.base.bounded_cache import BoundedCache
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.structures import Hash, together
from microsub.timelines.channels.follows import read_subscription
from microsub.web.display import ORDERS, Choices

LAST_CHOICE = ""
"""The field with the last choice, for channels without one of their own; only its order isn't for these."""
_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class ChannelDisplay(Choices):
    """How a channel looks: whole posts, lines or cards; which posts come first; headings for days or feeds.

    An empty `order` is that of the browser's display settings.
    """

    view: str = "full"
    order: str = ""
    group: str = "none"

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "view": ("list", "cards", "full"),
        "order": ORDERS,
        "group": ("none", "day", "feed"),
    }
    PAGE_SIZES: ClassVar[Mapping[str, int]] = {"list": 50, "cards": 30, "full": 20}

    @property
    def page_size(self) -> int:
        """The number of posts on a page."""
        return self.PAGE_SIZES[self.view]


class ChannelDisplays:
    """Keeps the display of each channel of each user. A new channel has the view and headings that were chosen last."""

    def __init__(self, redis: Redis) -> None:
        self._of = Hash.at(redis, keys.displays)
        self._follows = Hash.at(redis, keys.channel_feeds)
        self._known: BoundedCache[tuple[str, str, str], ChannelDisplay] = BoundedCache(_MOST_KNOWN)

    def last(self, user: str, uid: str, feed: str = "") -> ChannelDisplay:
        """The display as this process read it last, so that a page can be read at the same time as its display."""
        return self._known.get((user, uid, feed), ChannelDisplay())

    async def of(self, user: str, uid: str, feed: str = "") -> ChannelDisplay:
        """The display of a channel, or of one of its feeds, whose view may be its own. One round trip."""
        follows = self._follows(user, uid)
        (own, last), follow = await together(self._of(user).get_many((uid, LAST_CHOICE)), follows.get(feed))
        found = ChannelDisplay.read(text(own or last) or "")
        found = found if own else replace(found, order="")
        if follow is not None and (view := read_subscription(follows.key, feed, follow).settings.view) is not None:
            found = replace(found, view=view)
        self._known[user, uid, feed] = found
        return found

    async def choose(self, user: str, uid: str, chosen: Mapping[str, str], uids: frozenset[str]) -> None:
        """Change what is `chosen`. `uids` are the user's channels: the displays of others are deleted."""
        display = (await self.of(user, uid)).changed(chosen)
        displays = self._of(user)
        gone = {*await displays.names()} - uids - {LAST_CHOICE}
        await together(displays.set(dict.fromkeys((uid, LAST_CHOICE), display.stored())), displays.delete(*gone))

    async def all(self, user: str) -> dict[str, ChannelDisplay]:
        """The displays of all channels that have one of their own, and the user's last choice, by `LAST_CHOICE`."""
        return {uid: ChannelDisplay.read(text(stored)) for uid, stored in (await self._of(user).all()).items()}

    async def restore(self, user: str, displays: Mapping[str, ChannelDisplay]) -> None:
        """Set the displays of channels that have none yet."""
        await self._of(user).set_new({uid: one.stored() for uid, one in displays.items()})
