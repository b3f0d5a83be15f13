"""Posts as their user sees them: with the text that the user has chosen, and the user's names for feeds."""

from __future__ import annotations

from collections.abc import Sequence

from microsub.feeds import Feeds
from microsub.posts import Texts
from microsub.timelines.channels.store import Channels
from microsub.timelines.feed_names import OwnNames
from microsub.timelines.full_text import TextChoices


class OwnView:
    """What users have chosen to see. `names` and `texts` read it, and remember it for a while."""

    def __init__(self, channels: Channels, feeds: Feeds) -> None:
        self.names = OwnNames(channels, feeds)
        self.texts = TextChoices(channels)

    async def of(
        self, user: str, data: Sequence[bytes | Texts | None], number: bytes | None = None
    ) -> list[bytes | None]:
        """The JSON of each item as the user sees it. `number` is as in `PageRows.own_names`, None if unread."""
        names = await self.names.of(user, number)
        chosen = await self.texts.of(user, data, number)
        return [item and names.put_into(item) for item in chosen] if names else chosen
