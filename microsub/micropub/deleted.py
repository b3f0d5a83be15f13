"""Posts of sources that can be sent again: deleted ones, and those of the last minutes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace

from microsub.base.digests import sha256_hex
from microsub.feeds import Source
from microsub.micropub.properties import PostedItem
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text

SENT_AGAIN = 600
"""Seconds for which a post without a `uid` or `url` is recognised by its content."""

KEPT_DELETED = 30 * 86_400
"""Seconds for which a deleted post can be restored."""
MOST_DELETED = 200
"""Deleted posts kept per user, the most recent ones: each may have half a megabyte."""

_RESTORED = "restored "
"""Prefix of a restored post's token, stored in place of its content."""


class DeletedPosts:
    """Deleted posts of sources by token: their content, or the token of the restored post.

    An earlier token or the author's own name of a restored post leads to its latest token. Each use extends this by
    30 days.
    """

    def __init__(self, redis: Redis, *, clock: Callable[[], float] = time.time) -> None:
        self._redis = redis
        self._clock = clock

    async def keep(self, source: Source, token: str, item: PostedItem, published: str) -> None:
        """Store the content of a post that is about to be deleted, with its time of publication."""
        said = replace(item, properties={"published": [published], **item.properties})
        await self._write(source, token, said.encoded())

    async def token_of(self, source: Source, content: bytes) -> str:
        """The token of a post with that content: the one of `SENT_AGAIN` seconds ago, unless that was deleted since."""
        place = keys.posted_lately(source.user, sha256_hex(b"%b\0%b" % (source.id.encode(), content)))
        made = secrets.token_urlsafe(16)
        # `NX` together with `GET` needs a newer Redis than the bundled one.
        _, found = await self._redis.pipeline([("SET", place, made, "NX", "EX", SENT_AGAIN), ("GET", place)])
        known = text(found or made.encode())
        if known != made and await self.has(source, known):
            # It was deleted since then, and the sender wants it back.
            await self._redis.command("SET", place, made, "EX", SENT_AGAIN)
            return made
        return known

    async def has(self, source: Source, token: str) -> bool:
        """Whether that post was deleted recently, even if it was restored since."""
        return bool(await self._redis.command("EXISTS", keys.deleted_post(source.user, _digest(source, token))))

    async def item(self, source: Source, token: str) -> PostedItem | None:
        """The content of a recently deleted post, by its `latest` token; None if there is none."""
        said = await self._read(source, token)
        return PostedItem.read(said) if said else None

    async def restored(self, source: Source, former: str, token: str) -> None:
        """Record the token under which a post was restored."""
        await self._write(source, former, f"{_RESTORED}{token}".encode())

    async def latest(self, source: Source, token: str) -> str:
        """The current token of the post that once had this token."""
        former: list[str] = []
        while (said := await self._read(source, token)).startswith(_RESTORED):
            former.append(token)
            token = said.removeprefix(_RESTORED)
        for one in former:
            await self.restored(source, one, token)
        return token

    async def _read(self, source: Source, token: str) -> str:
        return text(await self._redis.command("GET", keys.deleted_post(source.user, _digest(source, token))) or b"")

    async def _write(self, source: Source, token: str, value: bytes) -> None:
        digest, listed = _digest(source, token), keys.deleted_posts(source.user)
        *_, over = await self._redis.pipeline(
            [
                ("SET", keys.deleted_post(source.user, digest), value, "EX", KEPT_DELETED),
                ("ZADD", listed, f"{self._clock():.3f}", digest),
                ("EXPIRE", listed, KEPT_DELETED),
                ("ZRANGE", listed, 0, -1 - MOST_DELETED),
            ]
        )
        if over:
            doomed = [keys.deleted_post(source.user, text(one)) for one in over]
            await self._redis.pipeline([("DEL", *doomed), ("ZREM", listed, *over)])


def _digest(source: Source, token: str) -> str:
    return sha256_hex(f"{source.id}.{token}")
