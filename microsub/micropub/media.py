"""Files that sources upload: pictures, sound, films and any other type.

Files are stored in Redis, next to the posts that show them. So every web process on every machine can serve them,
backups contain them, and they are deleted with their user. This costs memory, so a file and a user's total must be
small. A file's type is read from its first bytes; unknown types are served as downloads, and nothing as a document.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Literal

from microsub.base.digests import sha256_hex
from microsub.base.errors import NotFound, QuotaReached
from microsub.base.locks import KeyedLocks
from microsub.formats.documents.values import UNKNOWN_TYPE
from microsub.formats.xml.media import ENDINGS, type_of
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


# --- JPEG without the metadata that cameras add: where and when it was taken, and with which camera -------------------
#
# Metadata is in segments before the picture (ISO/IEC 10918-1, B.1.1; Exif 2.32, 4.5): Exif and XMP in APP1, IPTC in
# APP13, remarks in COM. The orientation is kept, since browsers rotate the picture by it; all else stays byte for byte.

_SCAN = 0xDA
_APP1 = 0xE1
_DROPPED = frozenset({_APP1, 0xED, 0xFE})
"""APP1, APP13 and COM."""
_EXIF = b"Exif\0\0"
_ORIENTATION = 0x0112
_ORDERS: Mapping[bytes, Literal["little", "big"]] = {b"II*\0": "little", b"MM\0*": "big"}
_MOST_ENTRIES = 200
_MOST_SEGMENTS = 1000
"""Segments and fill bytes before the picture: cameras write tens, but ten megabytes could contain millions."""


def without_metadata(data: bytes) -> bytes:
    """The picture without place, time and camera; an invalid JPEG is returned unchanged. Pure."""
    kept, turned, end = [data[:2]], 1, 2
    for start, end in _segments(data):
        marker = data[start + 1]
        if marker not in _DROPPED:
            kept.append(data[start:end])
        elif marker == _APP1 and data[start + 4 : start + 10] == _EXIF:
            turned = _orientation(data[start + 10 : end]) or turned
    if data[end : end + 2] != bytes((0xFF, _SCAN)):
        return data
    if turned != 1:
        kept.insert(1, _exif(turned))
    return b"".join((*kept, data[end:]))


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """The start and end of each segment before the picture."""
    start = 2
    for _ in range(_MOST_SEGMENTS):
        if start + 4 > len(data) or data[start] != 0xFF or data[start + 1] == _SCAN:
            return
        if data[start + 1] == 0xFF:  # a fill byte
            start += 1
            continue
        end = start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")
        if end > len(data) or end < start + 4:
            return
        yield start, end
        start = end


def _orientation(tiff: bytes) -> int:
    """The orientation, 1 to 8, in the first directory of Exif data; 0 if there is none."""
    if tiff[:4] not in _ORDERS:
        return 0
    order = _ORDERS[tiff[:4]]

    def number(at: int, size: int) -> int:
        return int.from_bytes(tiff[at : at + size], order)

    first = number(4, 4)
    for entry in range(first + 2, first + 2 + 12 * min(number(first, 2), _MOST_ENTRIES), 12):
        if number(entry, 2) == _ORIENTATION:
            found = number(entry + 8, 2)
            return found if found <= 8 else 0
    return 0


def _exif(orientation: int) -> bytes:
    """A segment that contains only the orientation."""
    entry = b"\x01\x12\x00\x03\x00\x00\x00\x01" + orientation.to_bytes(2, "big") + b"\0\0"
    body = _EXIF + b"MM\0*\0\0\0\x08\0\x01" + entry + b"\0\0\0\0"
    return b"\xff\xe1" + (len(body) + 2).to_bytes(2, "big") + body
