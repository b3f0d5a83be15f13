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
from microsub.redis.structures import Scores, Value, existing, together

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
        self._post = Value.at(redis, keys.deleted_post, KEPT_DELETED)
        self._clock = clock

    async def keep(self, source: Source, token: str, item: PostedItem, published: str) -> None:
        """Store the content of a post that is about to be deleted, with its time of publication."""
        said = replace(item, properties={"published": [published], **item.properties})
        await self._write(source, token, said.encoded())

    async def token_of(self, source: Source, content: bytes) -> str:
        """The token of a post with that content: the one of `SENT_AGAIN` seconds ago, unless that was deleted since."""
        digest = sha256_hex(b"%b\0%b" % (source.id.encode(), content))
        place = Value(self._redis, keys.posted_lately(source.user, digest), SENT_AGAIN)
        made = secrets.token_urlsafe(16)
        _, found = await together(place.claim(made), place.get())
        known = text(found or made.encode())
        if known != made and await self.has(source, known):
            # It was deleted since then, and the sender wants it back.
            await place.set(made)
            return made
        return known

    async def has(self, source: Source, token: str) -> bool:
        """Whether that post was deleted recently, even if it was restored since."""
        return bool(await existing(self._redis, self._post(source.user, _digest(source, token)).key))

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
        return text(await self._post(source.user, _digest(source, token)).get() or b"")

    async def _write(self, source: Source, token: str, value: bytes) -> None:
        user, digest = source.user, _digest(source, token)
        listed = Scores(self._redis, keys.deleted_posts(user), KEPT_DELETED)
        noting = listed.set({digest: f"{self._clock():.3f}"})
        _, _, over = await together(self._post(user, digest).set(value), noting, listed.names(0, -1 - MOST_DELETED))
        await together(*(self._post(user, one).clear() for one in over), listed.delete(*over))


def _digest(source: Source, token: str) -> str:
    return sha256_hex(f"{source.id}.{token}")
