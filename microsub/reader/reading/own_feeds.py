"""A user's own feeds, found by their names and addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from microsub.base.plaintext import by_name
from microsub.base.urls import mask_credentials
from microsub.model.words import words_of
from microsub.reader.channel_list import ChannelLink, ChannelLinks
from microsub.reader.reading.posts import FeedFaces
from microsub.timelines import Channels


@dataclass(frozen=True, slots=True)
class OwnFeed:
    """A feed that the user follows; `url` is its address without passwords."""

    feed: str
    url: str
    name: str
    channel: ChannelLink


MOST_OWN = 20
"""Feeds that a search shows."""


class OwnFeeds:
    """Finds feeds among those that a user follows."""

    def __init__(self, channels: Channels, faces: FeedFaces) -> None:
        self._channels = channels
        self._faces = faces

    async def called(
        self, user: str, links: ChannelLinks, words: Sequence[str], without: Collection[str] = ()
    ) -> list[OwnFeed]:
        """The feeds whose names or addresses have all of the words, by name; not those at the addresses `without`."""
        everywhere = await self._channels.all_subscriptions(user)
        follows = [(channel, one) for channel in links.own for one in everywhere.get(channel.uid, ())]
        faces = await self._faces.of({one.feed for _, one in follows})

        def found() -> list[OwnFeed]:
            every = (
                OwnFeed(one.feed, shown, one.name or faces.get(one.feed, ("",))[0] or shown, channel)
                for channel, one in follows
                if one.url not in without
                for shown in (mask_credentials(one.url),)
            )
            matching = (one for one in every if _has(f"{one.name} {one.url}", words))
            return nsmallest(MOST_OWN, matching, key=lambda one: by_name(one.name))

        # In a thread, because there may be thousands of feeds.
        return await asyncio.to_thread(found)


def _has(text: str, words: Sequence[str]) -> bool:
    looked_at = f"{text.casefold()} {' '.join(words_of(text))}"
    return all(word in looked_at for word in words)
