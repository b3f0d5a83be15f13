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
from microsub.redis.protocol import Arg, Command, Redis
from microsub.redis.replies import score_text, text
from microsub.redis.scripts import load

_CHANGED_IF = load("compare_and_set")
_MOST_COPIES = 64

COPY = "copy"
"""An item's field: it has its feed and guid, but is only its user's; the feed doesn't know it."""

KEPT = 400 * 86400
"""Seconds for which imported posts are remembered."""


class Imported:
    """The items that an import creates or finds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def claims(self, feed_id: str, guids: Sequence[str]) -> dict[str, str]:
        """The items that the feed's guids stand for, deleted ones included."""
        if not guids:
            return {}
        found = await self._redis.command("HMGET", keys.feed_guids(feed_id), *guids)
        return {guid: text(item) for guid, item in zip(guids, found, strict=True) if item is not None}

    async def missing(self, user: str, uid: str, old: Sequence[str]) -> list[str]:
        """The given posts of another server that no import has added to this channel yet."""
        if not old:
            return []
        arrived = await self._redis.command("HMGET", keys.imported(user), *(f"{uid} {one}" for one in old))
        return [one for one, value in zip(old, arrived, strict=True) if value is None]

    async def known(self, user: str, old: Sequence[str]) -> dict[str, str]:
        """The item ids that `ids` has given to these posts."""
        if not old:
            return {}
        found = await self._redis.command("HMGET", keys.imported(user), *old)
        return {one: text(value) for one, value in zip(old, found, strict=True) if value is not None}

    async def ids(self, user: str, old: Sequence[str]) -> dict[str, str]:
        """The item ids of another server's posts, the same in every call."""
        if not old:
            return {}
        key, known = keys.imported(user), await self.known(user, old)
        new = [one for one in old if one not in known]
        if new:
            last = int(await self._redis.command("INCRBY", keys.item_ids(), len(new)))
            commands: list[Command] = [("HSETNX", key, one, last - place) for place, one in enumerate(new)]
            await self._redis.pipeline([*commands, ("EXPIRE", key, KEPT)])
            known = await self.known(user, old)
        return known

    async def write(self, posts: Mapping[str, ItemToStore], now: float, feed_id: str = "") -> None:
        """Write items by id, without a feed, or as copies of its posts. Idempotent.

        They don't enter the feed's order: they come back only for the user who imports them.
        """
        commands: list[Command] = []
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
            commands.append(("HSET", keys.item(item_id), *(part for pair in fields.items() for part in pair)))
        if commands:
            await self._redis.pipeline(commands)

    async def note_copies(self, feed_id: str, items: Mapping[str, str]) -> None:
        """Note the items (by guid) that the feed's post replaces if the feed lists it later.

        The record of the feed must have the field `feeds.record.COPIED`.
        """
        key, left = keys.feed_imported(feed_id), dict(items)
        while left:
            before = [text(one or b"") for one in await self._redis.command("HMGET", key, *left)]
            rows = ((guid, item, ids) for (guid, item), ids in zip(left.items(), before, strict=True))
            tried = [(guid, item, ids) for guid, item, ids in rows if item not in ids.split()]
            calls = [
                _CHANGED_IF(record=key, fields=(guid, ids, " ".join([*ids.split(), item][-_MOST_COPIES:])))
                for guid, item, ids in tried
            ]
            replies = await self._redis.scripts(calls)
            left = {guid: item for (guid, item, _), done in zip(tried, replies, strict=True) if not done}
        if items:
            await self._redis.command("EXPIRE", key, KEPT)

    async def arrived(self, user: str, uid: str, old: Sequence[str]) -> None:
        """Note that the channel has these posts."""
        if old:
            pairs = [part for one in old for part in (f"{uid} {one}", 1)]
            key = keys.imported(user)
            await self._redis.pipeline([("HSET", key, *pairs), ("EXPIRE", key, KEPT)])

    async def departed(self, feed_id: str, guids: Sequence[str]) -> dict[str, str]:
        """The ids, by guid, of posts that left timelines on the other server; new ids if the feed never had them.

        If the feed lists such a post later, the new item succeeds that id: timelines with the id in `gone` keep it
        out, all others get it.
        """
        known = await self.claims(feed_id, guids)
        new = [guid for guid in guids if guid not in known]
        if not new:
            return known
        last = int(await self._redis.command("INCRBY", keys.item_ids(), len(new)))
        key = keys.feed_departed(feed_id)
        commands: list[Command] = [("HSETNX", key, guid, last - place) for place, guid in enumerate(new)]
        *_, ids, _ = await self._redis.pipeline([*commands, ("HMGET", key, *new), ("EXPIRE", key, KEPT)])
        return known | {guid: text(item) for guid, item in zip(new, ids, strict=True)}
