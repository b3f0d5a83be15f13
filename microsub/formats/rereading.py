"""A document is read again, and most of its entries are those of last time: only the others are cleaned and kept.

What is cheap is done for the whole document: its XML is read, and of every entry a mark is taken of all that the
publisher wrote in it, of what of the feed flows into it, and of the edition of the code. An entry with a mark of last
time is what it was. It still counts where entries matter to each other: for their number, their dates and order.

Where entries share a guid, what each of them is known by depends on the others. Such documents are read as new ones.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson

from microsub.formats.edition import edition
from microsub.formats.encoding import Document
from microsub.formats.entry_id import identities, identity
from microsub.formats.normalise import Finishing, body_size
from microsub.formats.parse import as_parse_error, read_raw
from microsub.formats.raw import RawEntry
from microsub.model.jf2 import Entry, Feed

_MARK, _GUID = 12, 8
_ROW = struct.Struct(f">{_MARK}s{_GUID}sI")


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry of a document. `entry` is None where it is as it was last time; else `guid` is what it is known by."""

    published: datetime | None
    guid: str = ""
    entry: Entry | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A document: what it says of itself, in `feed` (without entries), and all that it lists, in its order.

    `marks` is for the next time; None where that must read everything.
    """

    feed: Feed
    listed: tuple[Listed, ...]
    marks: bytes | None


@dataclass(frozen=True, slots=True)
class _Known:
    """An entry of last time: a digest of what it is known by, and how long its cleaned body was."""

    guid: bytes
    size: int


def reread(body: bytes, url: str, content_type: str | None, source: str, marks: bytes | None = None) -> Reading:
    """Read `body` as `formats.parse.parse` does, but for the entries that `marks`, of the last reading, has.

    `source` is the address that the feed is known by. Raises ParseError.
    """
    with as_parse_error(url):
        document = Document(body, content_type)
        del body  # as in `parse`
        work = Finishing(read_raw(document, url, content_type))
        return _read(work, _context(work, source), {} if marks is None else _unpacked(marks))


def _read(work: Finishing, context: bytes, known: Mapping[bytes, _Known]) -> Reading:
    """What is known is passed over, unless entries turn out to share what they are known by."""
    rows: list[tuple[bytes | None, bytes, int]] = []
    listed: list[Listed] = []
    for raw in work.entries:
        work.shorten(raw)
        mark = _mark(raw, context)
        old = None if mark is None else known.get(mark)
        if old is None:
            entry = work.finish(raw)
            listed.append(Listed(entry.published, identity(entry), entry))
            rows.append((mark, _guid(listed[-1].guid), body_size(entry)))
        else:
            work.pass_over(old.size)
            listed.append(Listed(raw.entry.published))
            rows.append((mark, old.guid, old.size))
    if len({guid for _, guid, _ in rows}) == len(rows):
        return Reading(work.head, tuple(listed), _packed(rows))
    entries = [one.entry or work.finish(raw) for raw, one in zip(work.entries, listed, strict=True)]
    told_apart = zip(entries, identities(entries), strict=True)
    return Reading(work.head, tuple(Listed(entry.published, guid, entry) for entry, guid in told_apart), None)


def _context(work: Finishing, source: str) -> bytes:
    """A digest of all that entries become what they are by, beside themselves."""
    digest = hashlib.blake2b(edition(), digest_size=32)
    digest.update(repr((source, work.surroundings)).encode("utf-8", "surrogatepass"))
    return digest.digest()


def _mark(raw: RawEntry, context: bytes) -> bytes | None:
    """None for text that has no UTF-8 form: such an entry is never known."""
    try:
        return hashlib.blake2b(orjson.dumps(raw), key=context, digest_size=_MARK).digest()
    except orjson.JSONEncodeError:
        return None


def _guid(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_GUID).digest()


def _packed(rows: Sequence[tuple[bytes | None, bytes, int]]) -> bytes:
    return b"".join(_ROW.pack(mark, guid, size) for mark, guid, size in rows if mark is not None)


def _unpacked(marks: bytes) -> dict[bytes, _Known]:
    """Nothing is known where the bytes are no marks."""
    if len(marks) % _ROW.size:
        return {}
    return {mark: _Known(guid, size) for mark, guid, size in _ROW.iter_unpack(marks)}
