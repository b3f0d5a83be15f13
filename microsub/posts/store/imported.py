"""Writing what comes from another server: posts of no feed, and what guid maps say of the others.

A post of no feed gets its id first, under the one that it had; then its item is written, then the timeline gets it,
then that is noted. So an import that was killed goes on where it stopped, and one that is repeated finds everything
done, even where the post has left by now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from microsub.formats.wire import identified
from microsub.posts.values import ItemToStore
from microsub.redis import counters, keys
from microsub.redis.protocol import Arg, Command, Redis
from microsub.redis.replies import text
from microsub.redis.scores import score_text

KEPT = 400 * 86400
"""Seconds for which it is known what was imported."""


class Imported:
    """The items that an import makes or finds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def claims(self, feed_id: str, guids: Sequence[str]) -> dict[str, str]:
        """Which item of the feed each guid stands for, those that are gone included."""
        if not guids:
            return {}
        found = await self._redis.command("HMGET", keys.feed_guids(feed_id), *guids)
        return {guid: text(item) for guid, item in zip(guids, found, strict=True) if item is not None}

    async def missing(self, user: str, uid: str, old: Sequence[str]) -> list[str]:
        """Those of another server's posts that this channel hasn't got from an import yet."""
        if not old:
            return []
        arrived = await self._redis.command("HMGET", keys.imported(user), *(f"{uid} {one}" for one in old))
        return [one for one, value in zip(old, arrived, strict=True) if value is None]

    async def ids(self, user: str, old: Sequence[str]) -> dict[str, str]:
        """The item id for each of another server's posts, the same whenever and however often it is asked for."""
        if not old:
            return {}
        key = keys.imported(user)
        known = await self._redis.command("HMGET", key, *old)
        new = [one for one, value in zip(old, known, strict=True) if value is None]
        if new:
            last = await counters.take(self._redis, keys.item_ids(), len(new))
            commands: list[Command] = [("HSETNX", key, one, last - place) for place, one in enumerate(new)]
            await self._redis.pipeline([*commands, ("EXPIRE", key, KEPT)])
            known = await self._redis.command("HMGET", key, *old)
        return {one: text(value) for one, value in zip(old, known, strict=True) if value is not None}

    async def write(self, posts: Mapping[str, ItemToStore], now: float) -> None:
        """Write items of no feed, by id. Doing it again changes nothing."""
        commands: list[Command] = []
        for item_id, post in posts.items():
            fields: dict[str, Arg] = {
                "ID": item_id,
                "feed": "",
                "guid": post.guid,
                "hash": post.hash,
                "score": score_text(post.score),
                "Published": post.published,
                "discovered": score_text(now),
                "updated": score_text(now),
                "author": post.author,
                "link": post.link,
                "Data": identified(post.wire, item_id, ""),
            }
            commands.append(("HSET", keys.item(item_id), *(part for pair in fields.items() for part in pair)))
        if commands:
            await self._redis.pipeline(commands)

    async def arrived(self, user: str, uid: str, old: Sequence[str]) -> None:
        """The channel has these posts."""
        if old:
            pairs = [part for one in old for part in (f"{uid} {one}", 1)]
            key = keys.imported(user)
            await self._redis.pipeline([("HSET", key, *pairs), ("EXPIRE", key, KEPT)])
