"""The reply of a timeline page, put together from bytes that are ready for the wire.

Items are stored as encoded JSON objects without what belongs to one reader; that part is put in front of each. Nothing
is decoded, because that would cost more than everything else in the request.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from microsub.model.reader import Cursor, PageRows

MAX_PREFIXES = 20_000

Prefixes = tuple[bytes, bytes]


class Splicer:
    """Builds pages, and remembers the encoded `_channel` of the channels that it met."""

    def __init__(self) -> None:
        self._prefixes: dict[tuple[str, str], Prefixes] = {}

    def page(
        self, rows: PageRows, data: Sequence[bytes | None], *, newer: bool = False, source: object = None
    ) -> bytes:
        """The reply as the bytes of a JSON object: `items`, `paging`, and `source` where one is given.

        `data` holds the wire JSON of `rows`, in the same order; rows without (their item has just been swept) are left
        out. `newer` says that the walk went upwards, from a `before` cursor.
        """
        head = b'{"source":' + orjson.dumps(source) + b',"items":[' if source is not None else b'{"items":['
        parts = [head]
        uid = None
        prefixes: Prefixes = (b"", b"")
        for row, item in zip(rows.rows, data, strict=True):
            if item is None:
                continue
            if row.channel != uid:
                uid = row.channel
                prefixes = self.prefixes(uid, rows.names.get(uid, uid))
            # Copying an item twice is faster than joining views, whose overhead exceeds the copy of two kilobytes.
            parts += (prefixes[row.is_read], item[1:])
        if len(parts) > 1:
            parts[1] = parts[1][1:]
        parts += (b'],"paging":', paging(rows, newer), b"}")
        return b"".join(parts)

    def prefixes(self, uid: str, name: str) -> Prefixes:
        """What stands before an unread and before a read item of this channel: a comma, then members up to its own."""
        found = self._prefixes.get((uid, name))
        if found is None:
            if len(self._prefixes) >= MAX_PREFIXES:
                self._prefixes.clear()
            channel = b',"_channel":' + orjson.dumps({"id": uid, "uid": uid, "name": name}) + b","
            found = (b',{"_is_read":false' + channel, b',{"_is_read":true' + channel)
            self._prefixes[(uid, name)] = found
        return found


def paging(rows: PageRows, newer: bool) -> bytes:
    """The `paging` object.

    `before` leads to what is newer than the page and is there whenever there is a page; `after` only when older items
    exist. A walk that was cut short goes on from where it stopped, which can be on an empty page.
    """
    before = after = None
    if rows.rows:
        first, last = rows.rows[0], rows.rows[-1]
        before = Cursor(first.score, first.id)
        if rows.older:
            after = Cursor(last.score, last.id)
    if rows.resume is not None:
        if newer:
            before = rows.resume
        elif rows.older:
            after = rows.resume
    if before is None:
        return b"{}" if after is None else b'{"after":"' + after.encode().encode() + b'"}'
    if after is None:
        return b'{"before":"' + before.encode().encode() + b'"}'
    return b'{"before":"' + before.encode().encode() + b'","after":"' + after.encode().encode() + b'"}'
