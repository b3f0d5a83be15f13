"""Any feed document to jf2: recognise the format, let its module read it, clean and complete what came out.

Nothing behind this module needs to ask which format a post came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from microsub.errors import ParseError
from microsub.formats import jsonfeed
from microsub.formats.encoding import Document
from microsub.formats.mf2 import hfeed
from microsub.formats.normalise import normalise
from microsub.formats.raw import RawFeed
from microsub.formats.xml import syndication
from microsub.formats.xml.xmlfeed import after_prologue
from microsub.model.jf2 import Feed

_ROOT = re.compile(r"\s*<(?:[\w.-]{1,40}:)?([A-Za-z][\w.-]{0,40})")
LARGE = 1 << 20
"""Bytes from which on the text of a feed isn't put together."""

_JUNK = re.compile(
    r"(?s).{1,10000}?(?=<\?xml\s[^>]{0,200}\?>\s*(?:<!--.{0,2000}?-->\s*)?<(?:rss|feed|rdf:RDF)\b"
    r"|<rss\s[^>]{0,500}\bversion\s*=)"
)
_PAGE = re.compile(r"(?i)<(?:!doctype\s+html|html|head|body)\b")
_SYNDICATION = frozenset({"rss", "rdf", "feed", "channel", "entry"})


def parse(body: bytes, url: str, content_type: str | None) -> Feed:
    """Read `body`, which was served from `url` as `content_type` (the whole header value, or None).

    The result is sanitised, its URLs are absolute http(s) URLs, post types are set, every entry has an author card,
    and at most the 300 newest entries are in it, in document order. Raises ParseError, and nothing else, for whatever
    isn't a feed.
    """
    with as_parse_error(url):
        document = Document(body, content_type)
        del body  # where the caller doesn't keep it, it is gone with its last use
        return normalise(read_raw(document, url, content_type))


@contextmanager
def as_parse_error(url: str) -> Iterator[None]:
    """Whatever goes wrong is the document's fault: the parsers beneath raise anything on some that were made for it."""
    try:
        yield
    except ParseError:
        raise
    except Exception as error:
        raise ParseError(url, f"the document can't be read ({type(error).__name__})") from error


def read_raw(document: Document, url: str, content_type: str | None) -> RawFeed:
    """A document before any cleaning, for `normalise`. Raises ParseError for what isn't a feed, and anything else."""
    if len(document) > LARGE and sniff(next(document.pieces()), content_type) == "syndication":
        return syndication.to_jf2(document.pieces, url)
    text = document.take()
    kind = sniff(text, content_type)
    if kind == "json":
        return jsonfeed.to_jf2(text, url)
    if kind == "syndication":
        return syndication.to_jf2(lambda: (text,), url)
    if kind == "html":
        # Warnings of PHP and the like stand before some feeds.
        if (junk := _JUNK.match(text)) and not _PAGE.search(junk[0]):
            return syndication.to_jf2(lambda: (text[junk.end() :],), url)
        return hfeed.to_jf2(text, url)
    raise ParseError(url, "the document is empty" if not text.strip() else "the document is no feed and no web page")


def sniff(text: str, content_type: str | None) -> str | None:
    """`json`, `syndication`, `html` or None: by what stands there, then by what HTTP says."""
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
