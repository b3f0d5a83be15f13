"""Files that sources upload: pictures, sound, films and any other type.

Files are stored in Redis, next to the posts that show them. So every web process on every machine can serve them,
backups contain them, and they are deleted with their user. This costs memory, so a file and a user's total must be
small. A file's type is read from its first bytes; unknown types are served as downloads, and nothing as a document.
"""

from __future__ import annotations

import re
import secrets

from microsub.base.digests import sha256_hex
from microsub.base.errors import NotFound, QuotaReached
from microsub.base.locks import KeyedLocks
from microsub.formats.documents.values import UNKNOWN_TYPE
from microsub.formats.xml.media import ENDINGS, type_of
from microsub.micropub.jpeg import without_metadata
from microsub.model.reader import NAME
from microsub.posts import Items
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text, texts
from microsub.redis.scripts import load

PATH = "/media"
MOST_BYTES = 10 * 1024 * 1024
"""The maximum size of one file."""

LEAST_COUNTED = 16 * 1024
"""Bytes that the smallest file counts: without this, a user could store millions of files."""

KEPT_UNUSED = 31 * 86_400
"""Seconds that an unused file is kept: a day longer than a deleted post can be restored."""

_WRITE, _USE = load("medium_write"), load("medium_use")
_SHOWN_BY = "post "
_ADDRESS = re.compile(r"([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9_-]{22})(?:\.[a-z0-9]{1,5})?")


class Media:
    """The files of all users."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._turns = KeyedLocks()

    async def add(self, user: str, data: bytes, most: int = 0) -> str:
        """Store a file, and return its path; the same bytes again get the same path.

        Place, time and camera are removed from a JPEG.
        Raises QuotaReached if the user's files would exceed `most` bytes (0: no limit).
        """
        kind, token = type_of(data) or UNKNOWN_TYPE, secrets.token_urlsafe(16)
        if kind == "image/jpeg":
            data = without_metadata(data)
        call = _WRITE(
            user,
            token,
            token=token,
            data=data,
            size=max(len(data), LEAST_COUNTED),
            type=kind,
            digest=sha256_hex(data),
            most=most,
        )
        reply = await self._redis.script(call)
        if isinstance(reply, int):
            if reply < 0:
                raise NotFound("there is no such user")
            raise QuotaReached("bytes of files", reply, most)
        ending = ENDINGS.get(kind)
        return f"{PATH}/{user}.{text(reply)}" + (f".{ending}" if ending else "")

    async def get(self, path: str) -> tuple[str, bytes, str]:
        """The user whose file is at a path, its content and its type. Raises NotFound.

        Reading one blocks all other requests to Redis, so only one per user is read at a time.
        """
        user, token = _named(path)
        async with self._turns.of(user):
            data, kind = await self._redis.command("HMGET", keys.medium(user, token), "data", "type")
        if data is None:
            raise _missing()
        return user, data, text(kind)

    async def delete(self, user: str, path: str, feed_id: str | None) -> None:
        """Delete a file of the user, on behalf of the source with that feed.

        Raises NotFound if there is no such file, or a post of another source shows it.
        """
        owner, token = _named(path)
        if owner != user or any(place != feed_id for place in await self._feeds_with(user, token)):
            raise _missing()
        if not await self._redis.command("DEL", keys.medium(user, token)):
            raise _missing()
        await self._redis.command("SREM", keys.media(user), token)

    async def shown(self, user: str, said: bytes, feed_id: str, guid: str) -> None:
        """Record which of the user's files a post shows, before the post is stored, so that they stay."""
        for token in dict.fromkeys(re.findall(rb"/media/%b\.([A-Za-z0-9_-]{22})" % re.escape(user.encode()), said)):
            await self._redis.script(_USE(file=keys.medium(user, text(token)), how="shown", what=f"{feed_id} {guid}"))

    async def sweep(self, user: str, items: Items, now: float) -> int:
        """Delete the user's files that were unused for `KEPT_UNUSED`; returns how many."""
        deleted = 0
        for token in texts(await self._redis.command("SMEMBERS", keys.media(user))):
            key = keys.medium(user, token)
            if await self._is_shown(key, items):
                await self._redis.command("HDEL", key, "unused")
                continue
            times = {"now": f"{now:.3f}", "until": f"{now - KEPT_UNUSED:.3f}"}
            call = _USE(file=key, media=keys.media(user), how="unused", what=token, **times)
            deleted += await self._redis.script(call)
        return deleted

    async def _feeds_with(self, user: str, token: str) -> list[str]:
        """The feeds with posts that show a file."""
        names = texts(await self._redis.command("HKEYS", keys.medium(user, token)))
        return [name.split(" ")[1] for name in names if name.startswith(_SHOWN_BY)]

    async def _is_shown(self, key: str, items: Items) -> bool:
        for name in texts(await self._redis.command("HKEYS", key)):
            if name.startswith(_SHOWN_BY) and await items.by_guid(*name.removeprefix(_SHOWN_BY).split(" ")):
                return True
        return False

    async def sizes(self, user: str) -> list[int]:
        """The size that each of the user's files counts, in bytes."""
        tokens = texts(await self._redis.command("SMEMBERS", keys.media(user)))
        found = await self._redis.pipeline([("HGET", keys.medium(user, token), "size") for token in tokens])
        return [int(size) for size in found if size is not None]


def _named(path: str) -> tuple[str, str]:
    match = _ADDRESS.fullmatch(path.removeprefix(f"{PATH}/"))
    if match is None or not NAME.match(match[1]):
        raise _missing()
    return match[1], match[2]


def _missing() -> NotFound:
    return NotFound("there is no such file")
