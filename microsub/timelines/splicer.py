"""The reply of a timeline page, put together from items that are stored as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import orjson

from microsub.base.bounded_cache import BoundedCache
from microsub.model.reader import PageRows
from microsub.posts import AWAY

MAX_PREFIXES = 20_000

Prefixes = tuple[bytes, bytes, bytes, bytes]
"""Prefixes by state: read, unread, saved, unread and saved."""


class Splicer:
    """Puts together the reply of a timeline page from bytes that are ready to send.

    Items are stored as encoded JSON objects without the members that depend on the user; these are put in front.
    Nothing is decoded, because that would cost more than the rest of the request. Remembers the encoded `_channel` of
    channels.
    """

    def __init__(self) -> None:
        self._prefixes: BoundedCache[tuple[str, str], Prefixes] = BoundedCache(MAX_PREFIXES)

    def page(
        self, rows: PageRows, data: Sequence[bytes | None], *, newer: bool = False, source: object = None
    ) -> bytes:
        """The reply as the bytes of a JSON object: `items`, `paging`, and `source` if given.

        `data` is the JSON of `rows` from `ItemCache`, in the same order; rows without data (their item was just swept)
        are left out. Those that are `AWAY` are listed as `_unavailable`, if there are any: so no app that keeps items,
        or marks those it has shown, takes a placeholder for the post. `newer`: the page was read upwards, from a
        `before` cursor.
        """
        return self.joined(rows, data, paging(rows, newer), source)

    def joined(self, rows: PageRows, data: Sequence[bytes | None], paging: bytes, source: object = None) -> bytes:
        """The same as `page`, with another `paging` object."""
        head = b'{"source":' + orjson.dumps(source) + b',"items":[' if source is not None else b'{"items":['
        parts = [head]
        uid = None
        prefixes: Prefixes = (b"", b"", b"", b"")
        for item, state, channel in zip(data, rows.states, rows.channels, strict=True):
            if not item:
                continue
            if channel != uid:
                uid = channel
                prefixes = self.prefixes(uid, rows.names.get(uid, uid))
            parts += (prefixes[state], item)
        if len(parts) > 1:
            parts[1] = parts[1][1:]
        parts += (b'],"paging":', paging)
        if AWAY in data:
            places = zip(rows.ids, rows.scores, data, strict=True)
            away = [_unavailable(item_id, score) for item_id, score, item in places if item == AWAY]
            parts += (b',"_unavailable":', orjson.dumps(away))
        parts.append(b"}")
        return b"".join(parts)

    def prefixes(self, uid: str, name: str) -> Prefixes:
        """The text before an item of this channel, by its state: a comma and its first members."""
        found = self._prefixes.get((uid, name))
        if found is None:
            channel = b',"_channel":' + orjson.dumps({"id": uid, "uid": uid, "name": name}) + b","
            unread, read, saved = b',{"_is_read":false', b',{"_is_read":true', b',"_saved":true'
            found = (read + channel, unread + channel, read + saved + channel, unread + saved + channel)
            self._prefixes[(uid, name)] = found
        return found


def _unavailable(item_id: str, score: str) -> dict[str, str]:
    """An item that can't be read now: its id, and when it was published if the row has this."""
    found = {"_id": item_id}
    if score:
        found["published"] = datetime.fromtimestamp(min(float(score), time.time()), UTC).isoformat()
    return found


def paging(rows: PageRows, newer: bool) -> bytes:
    """The `paging` object.

    `before` leads to newer items and is present on every page; `after` only if older items exist. If reading stopped
    early, the next page continues there; the page may be empty.
    """
    before, after = rows.first, rows.last if rows.older else None
    if rows.resume is not None:
        if newer:
            before = rows.resume
        elif rows.older:
            after = rows.resume
    found = (("before", before), ("after", after))
    return orjson.dumps({name: cursor.encode() for name, cursor in found if cursor is not None})
