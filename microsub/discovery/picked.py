"""Posts that a user picks from a preview: they become the user's own, without following or polling their feed.

A post that the user has from a feed that they follow stays that post.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from microsub.base.errors import RequestError
from microsub.discovery.entered import EnteredAddresses
from microsub.discovery.search import PREVIEW_ID, PREVIEW_SECONDS, PREVIEWED, Search, preview_id
from microsub.fetch import asking_for
from microsub.formats.entry_id import identities
from microsub.model.jf2 import Card, Feed
from microsub.posts import Imported, ItemToStore, items_to_store

if TYPE_CHECKING:
    from microsub.feeds import Feeds
    from microsub.posts import Items, OwnRoom

MOST_FEEDS = 5
"""Previews to which the posts of one request may belong: each may have to be fetched again."""


@dataclass(eq=False, repr=False)
class PickedPosts:
    """Stores posts of previews. `followed` returns the ids of the feeds that a user follows."""

    search: Search
    entered: EnteredAddresses
    imported: Imported
    items: Items
    room: OwnRoom
    feeds: Feeds
    followed: Callable[[str], Awaitable[Container[str]]]

    async def among(self, user: str, entries: Sequence[str], now: float) -> tuple[list[str], list[str]]:
        """`keep` those of `entries` that are posts of previews; returns their items, and the ids that are unknown."""
        ids = [entry for entry in entries if entry.startswith(PREVIEWED)]
        kept = await self.keep(user, ids, now) if ids else {}
        return list(kept.values()), [one for one in ids if one not in kept]

    async def keep(self, user: str, ids: Sequence[str], now: float) -> dict[str, str]:
        """Store these posts of the user's previews, and return their item ids, the same in every call.

        Left out are other ids, and posts that their feed no longer lists. The caller puts the items somewhere, or the
        sweep deletes them. Raises QuotaReached if the user has no room for further posts.
        """
        names = dict.fromkeys(match[1] for one in ids if (match := PREVIEW_ID.fullmatch(one)))
        found: dict[str, dict[str, ItemToStore]] = {}
        with suppress(TimeoutError), asking_for(f"user {user}"):
            async with asyncio.timeout(PREVIEW_SECONDS):
                for url in await self.entered.named(user, [*names][:MOST_FEEDS]):
                    with suppress(RequestError):
                        found[url] = _among(await self.search.feed_at(url), url, set(ids), now)
        received = await self._received(user, found)
        posts = {one: post for among in found.values() for one, post in among.items() if one not in received}
        items = await self.imported.ids(user, list(posts))
        # Their feed may have made them longer since they were picked first.
        growth = sum(len(post.wire) for post in posts.values()) - sum(await self.items.sizes(list(items.values())))
        if growth > 0:
            await self.room.require([user])
        await self.imported.write({items[one]: post for one, post in posts.items()}, now)
        if growth > 0:
            self.room.count([user], growth)
        return items | received

    async def _received(self, user: str, found: Mapping[str, Mapping[str, ItemToStore]]) -> dict[str, str]:
        """The posts, by the URL of their feed, that the user has from a feed that they follow, as items of it.

        Those that were picked before the follow stay the user's own.
        """
        received: dict[str, str] = {}
        followed = await self.followed(user) if found else ()
        for url, posts in found.items():
            feed_id = await self.feeds.find(url)
            if feed_id is not None and feed_id in followed:
                own = await self.imported.known(user, list(posts))
                items = await self.imported.claims(feed_id, [post.guid for post in posts.values()])
                there = await self.items.in_feed(feed_id, list(items.values()))
                received |= {
                    one: items[post.guid]
                    for one, post in posts.items()
                    if one not in own and items.get(post.guid) in there
                }
        return received


def _among(feed: Feed, url: str, wanted: Collection[str], now: float) -> dict[str, ItemToStore]:
    """The wanted posts of a feed, by their ids in its preview.

    The feed itself is the author of those that name none, since they will have no feed to replace it.
    """
    owner = Card(name=feed.name, url=feed.home, photo=feed.photo) if feed.name or feed.home else None
    found = {}
    for entry, identity in zip(feed.entries, identities(feed.entries), strict=True):
        if (name := preview_id(url, identity)) in wanted:
            (found[name],) = items_to_store(replace(feed, entries=(replace(entry, author=entry.author or owner),)), now)
    return found
