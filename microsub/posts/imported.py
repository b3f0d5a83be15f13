"""Posts that an import adds, in addition to those from polls and programs.

A post of a feed is identified by its guid, as usual. A post without a feed first gets an id for its name on the other
server; then its item is written, the timeline gets it, and that is noted. So an interrupted import continues where it
stopped, and a repeated one changes nothing, even if the post has left the timeline since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from microsub.formats.wire import identified
from microsub.posts.packing import packed
from microsub.posts.values import ItemToStore
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import score_text
from microsub.redis.structures import Change, Hash, Value, together

_MOST_COPIES = 64

COPY = "copy"
"""An item's field: it has its feed and guid, but is only its user's; the feed doesn't know it."""

KEPT = 400 * 86400
"""Seconds for which imported posts are remembered."""


class Imported:
    """The items that an import creates or finds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._imported = Hash.at(redis, keys.imported, KEPT)

    async def claims(self, feed_id: str, guids: Sequence[str]) -> dict[str, str]:
        """The items that the feed's guids stand for, deleted ones included."""
        return await Hash(self._redis, keys.feed_guids(feed_id)).known(guids)

    async def missing(self, user: str, uid: str, old: Sequence[str]) -> list[str]:
        """The given posts of another server that no import has added to this channel yet."""
        arrived = await self._imported(user).known([f"{uid} {one}" for one in old])
        return [one for one in old if f"{uid} {one}" not in arrived]

    async def known(self, user: str, old: Sequence[str]) -> dict[str, str]:
        """The item ids that `ids` has given to these posts."""
        return await self._imported(user).known(old)

    async def ids(self, user: str, old: Sequence[str]) -> dict[str, str]:
        """The item ids of another server's posts, the same in every call."""
        known = await self.known(user, old)
        new = [one for one in old if one not in known]
        if new:
            await self._imported(user).set_new(await self._new_ids(new))
            known = await self.known(user, old)
        return known

    async def _new_ids(self, names: Sequence[str]) -> dict[str, int]:
        last = await Value(self._redis, keys.item_ids()).add(len(names))
        return {name: last - place for place, name in enumerate(names)}

    async def write(self, posts: Mapping[str, ItemToStore], now: float, feed_id: str = "") -> None:
        """Write items by id, without a feed, or as copies of its posts. Idempotent.

        They don't enter the feed's order: they come back only for the user who imports them.
        """
        requests = []
        for item_id, post in posts.items():
            fields: dict[str, Arg] = {
                **post.extra,
                "ID": item_id,
                "feed": feed_id,
                "guid": post.guid,
                "hash": post.hash,
                "score": score_text(post.score),
                "Published": post.published,
                "discovered": score_text(now),
                "updated": score_text(now),
                "author": post.author,
                "link": post.link,
                "Data": packed(identified(post.wire, item_id, feed_id)),
                **({COPY: "1"} if feed_id else {}),
            }
            requests.append(Hash(self._redis, keys.item(item_id)).set(fields))
        await together(*requests)

    async def note_copies(self, feed_id: str, items: Mapping[str, str]) -> None:
        """Note the items (by guid) that the feed's post replaces if the feed lists it later.

        The record of the feed must have the field `feeds.record.COPIED`.
        """
        copies, left = Hash(self._redis, keys.feed_imported(feed_id), KEPT), dict(items)
        while left:
            known = dict.fromkeys(left, "") | await copies.known(left)
            changes: list[Change] = [
                (guid, known[guid], " ".join([*known[guid].split(), item][-_MOST_COPIES:]))
                for guid, item in left.items()
                if item not in known[guid].split()
            ]
            done = await copies.change_each(changes)
            left = {guid: left[guid] for (guid, *_), is_done in zip(changes, done, strict=True) if not is_done}
        if items:
            await copies.renew()

    async def arrived(self, user: str, uid: str, old: Sequence[str]) -> None:
        """Note that the channel has these posts."""
        await self._imported(user).set({f"{uid} {one}": 1 for one in old})

    async def departed(self, feed_id: str, guids: Sequence[str]) -> dict[str, str]:
        """The ids, by guid, of posts that left timelines on the other server; new ids if the feed never had them.

        If the feed lists such a post later, the new item succeeds that id: timelines with the id in `gone` keep it
        out, all others get it.
        """
        known = await self.claims(feed_id, guids)
        new = [guid for guid in guids if guid not in known]
        if not new:
            return known
        departed = Hash(self._redis, keys.feed_departed(feed_id), KEPT)
        _, ids = await together(departed.set_new(await self._new_ids(new)), departed.known(new))
        return known | ids
