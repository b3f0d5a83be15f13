"""Parses any feed document to jf2: the module of its format reads it, `normalise` cleans the result.

Later code needn't know which format a post came from.

When a document is read again, most of its entries are unchanged: only the others are cleaned and stored. Cheap steps
are done for the whole document: its XML is read, and each entry gets a fingerprint of everything the publisher wrote in
it, of the feed's data that affects it, and of the edition of the code. An entry with a known fingerprint is unchanged.
It still counts for the number, dates and order of entries. If entries share a guid, their identities depend on each
other; such documents are read as new ones.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import orjson

from microsub.base.errors import ParseError
from microsub.formats import hfeed, jsonfeed
from microsub.formats.encoding import DocumentText, after_prologue
from microsub.formats.entry_id import GUID_DIGEST, guid_digest, identities, identity
from microsub.formats.normalise import Finishing, RawEntry, body_size, normalise
from microsub.formats.xml import syndication
from microsub.model.jf2 import Entry, Feed
from microsub.parsing.task import Task

_ROOT = re.compile(r"\s*<(?:[\w.-]{1,40}:)?([A-Za-z][\w.-]{0,40})")
LARGE = 1 << 20
"""Size in bytes from which a feed's text isn't assembled in memory."""

_JUNK = re.compile(
    r"(?s).{1,10000}?(?=<\?xml\s[^>]{0,200}\?>\s*(?:<!--.{0,2000}?-->\s*)?<(?:rss|feed|rdf:RDF)\b"
    r"|<rss\s[^>]{0,500}\bversion\s*=)"
)
_PAGE = re.compile(r"(?i)<(?:!doctype\s+html|html|head|body)\b")
_SYNDICATION = frozenset({"rss", "rdf", "feed", "channel", "entry"})


def parse(body: bytes, url: str, content_type: str | None) -> Feed:
    """Parse `body`, served from `url` as `content_type` (the whole header value, or None).

    The result is sanitised: its URLs are absolute http(s) URLs, post types are set, and every entry has an author card.
    It has at most the 300 newest entries, in document order. Raises ParseError, and nothing else, for anything that
    isn't a feed.
    """
    with as_parse_error(url):
        document = DocumentText(body, content_type)
        del body  # frees the memory after its last use, unless the caller keeps it
        return normalise(*read_raw(document, url, content_type))


PARSE = Task(parse)


@contextmanager
def as_parse_error(url: str) -> Iterator[None]:
    """Convert any error to ParseError: on hostile documents, the underlying parsers can raise anything."""
    try:
        yield
    except ParseError:
        raise
    except Exception as error:
        raise ParseError(url, f"the document can't be read ({type(error).__name__})") from error


def read_raw(document: DocumentText, url: str, content_type: str | None) -> tuple[Feed, list[RawEntry]]:
    """Read a document before any cleaning. Raises ParseError if it isn't a feed, and anything else."""
    if len(document) > LARGE and sniff(next(document.pieces()), content_type) == "syndication":
        return syndication.to_jf2(document.pieces, url)
    text = document.take()
    kind = sniff(text, content_type)
    if kind == "json":
        return jsonfeed.to_jf2(text, url)
    if kind == "syndication":
        return syndication.to_jf2(lambda: (text,), url)
    if kind == "html":
        # Some feeds start with warnings of PHP and the like.
        if (junk := _JUNK.match(text)) and not _PAGE.search(junk[0]):
            return syndication.to_jf2(lambda: (text[junk.end() :],), url)
        return hfeed.to_jf2(text, url)
    raise ParseError(
        url, "the document is empty" if not text.strip() else "the document is neither a feed nor a web page"
    )


def sniff(text: str, content_type: str | None) -> str | None:
    """`json`, `syndication`, `html` or None: by the content, then by the declared type."""
    start = text.lstrip("\ufeff \t\r\n\0")
    if start[:1] == "{":
        return "json"
    root = _ROOT.match(start, after_prologue(start))
    if root:
        return "syndication" if root[1].lower() in _SYNDICATION else "html"
    declared = (content_type or "").partition(";")[0].strip().lower()
    if declared.endswith(("/xml", "+xml")) and declared != "application/xhtml+xml" and "<" in start:
        return "syndication"
    return "html" if "<" in start else None


_MARK = 12
_ROW = struct.Struct(f">{_MARK}s{GUID_DIGEST}sI")


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry of a document; `guid` and `entry` are set if it has changed since last time."""

    published: datetime | None
    guid: str = ""
    entry: Entry | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A document: `feed` is its own data without entries, `listed` all its entries.

    `fingerprints` is for the next reading; None if that must read everything. `guids` are digests of the identities of
    all entries, `left` says whether the last document, as far as it is known, listed an entry that this one doesn't.
    """

    feed: Feed
    listed: tuple[Listed, ...]
    fingerprints: bytes | None
    guids: frozenset[bytes]
    left: bool


def reread(body: bytes, url: str, content_type: str | None, source: str, fingerprints: bytes | None = None) -> Reading:
    """Parse `body` as `parse` does, except for entries in `fingerprints`, from the last reading.

    `source` is the feed's canonical address. Raises ParseError.
    """
    with as_parse_error(url):
        document = DocumentText(body, content_type)
        del body  # as in `parse`
        work = Finishing(*read_raw(document, url, content_type))
        return _read(work, _context(work, source), {} if fingerprints is None else _unpacked(fingerprints))


def _read(work: Finishing, context: bytes, known: Mapping[bytes, tuple[bytes, int]]) -> Reading:
    """Read a document; known entries are skipped, unless entries turn out to share an identity.

    `known` has the digest of an unchanged entry's identity, and the length of its cleaned body.
    """
    rows: list[tuple[bytes, bytes, int]] = []
    listed: list[Listed] = []
    for raw in work.entries:
        work.shorten(raw)
        fingerprint = hashlib.blake2b(orjson.dumps(raw), key=context, digest_size=_MARK).digest()
        old = known.get(fingerprint)
        if old is None:
            entry = work.finish(raw)
            listed.append(Listed(entry.published, identity(entry), entry))
            rows.append((fingerprint, guid_digest(listed[-1].guid), body_size(entry)))
        else:
            work.pass_over(old[1])
            listed.append(Listed(raw.entry.published))
            rows.append((fingerprint, *old))
    guids = frozenset(guid for _, guid, _ in rows)
    left = not known or any(guid not in guids for guid, _ in known.values())
    if len(guids) == len(rows):
        return Reading(work.head, tuple(listed), _packed(rows), guids, left)
    entries = [one.entry or work.finish(raw) for raw, one in zip(work.entries, listed, strict=True)]
    told_apart = zip(entries, identities(entries), strict=True)
    listed = [Listed(entry.published, guid, entry) for entry, guid in told_apart]
    guids = guids | {guid_digest(one.guid) for one in listed}
    return Reading(work.head, tuple(listed), None, guids, left)


def _context(work: Finishing, source: str) -> bytes:
    """A digest of everything besides an entry itself that affects the result."""
    digest = hashlib.blake2b(edition(), digest_size=32)
    digest.update(repr((source, work.surroundings)).encode("utf-8", "surrogatepass"))
    return digest.digest()


def _packed(rows: Sequence[tuple[bytes, bytes, int]]) -> bytes:
    return b"".join(_ROW.pack(*row) for row in rows)


def _unpacked(fingerprints: bytes) -> dict[bytes, tuple[bytes, int]]:
    """Read fingerprints; empty if the bytes are invalid."""
    if len(fingerprints) % _ROW.size:
        return {}
    return {fingerprint: (guid, size) for fingerprint, guid, size in _ROW.iter_unpack(fingerprints)}


_LIBRARIES = ("beautifulsoup4", "charset-normalizer", "feedparser", "mf2py", "nh3", "selectolax")
"""Libraries that affect the result, in addition to this package."""

_PACKAGE = Path(__file__).resolve().parents[1]
_CODE = ("formats/**/*.py", "base/urls.py", "model/jf2.py", "posts/entries.py")


def code_files() -> list[Path]:
    """The modules that turn documents into posts."""
    return sorted(path for pattern in _CODE for path in _PACKAGE.glob(pattern))


@cache
def edition() -> bytes:
    """A digest of the code that turns documents into posts, and of the libraries that it uses.

    It replaces a version number, which somebody would have to raise. If the code can't be read, each process has its
    own edition.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        for path in code_files():
            digest.update(path.read_bytes())
        for name in _LIBRARIES:
            digest.update(f"{name} {version(name)}\n".encode())
    except (OSError, PackageNotFoundError):
        return secrets.token_bytes(16)
    return digest.digest()
