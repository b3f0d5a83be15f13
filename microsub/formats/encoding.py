"""Detects the real encoding of a document (https://encoding.spec.whatwg.org/, RFC 7303).

Order: byte order mark, valid UTF-8, the encodings that HTTP and the document declare, a detector's result for the first
words in non-Latin scripts, windows-1252. Text that is valid UTF-8 and not plain ASCII is practically never anything
else, while wrong declarations are common.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from microsub import formats  # the detector takes long to load, and few documents need it

PIECE = 1 << 16

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNMARKED = (
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
    (b"\x4c\x6f\xa7\x94", "cp037"),
)
# Possessive quantifiers: a header may be 100 KiB of blanks, and the cache reads it in the serving process.
_CHARSET = re.compile(r"(?i)charset\s*+=\s*+[\"']?\s*+([\w.:-]+)")
_XML = re.compile(rb"<\?xml[^>]*?\bencoding\s*=\s*[\"']\s*([\w.:-]+)")
_META = re.compile(rb"(?i)<meta\b[^>]*\bcharset\s*=\s*[\"']?\s*([\w.:-]+)")
# The labels that browsers read as the superset, because publishers do.
_PROLOGUE = re.compile(r"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE\b[^\[>]*(?:\[.*?\]\s*)?>)", re.S | re.I)

_ALIASES = {
    "iso-8859-1": "cp1252", "iso8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252",
    "ascii": "cp1252", "iso-8859-9": "cp1254", "gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030",
    "shift_jis": "cp932", "shift-jis": "cp932", "x-sjis": "cp932", "ks_c_5601-1987": "cp949", "euc-kr": "cp949",
    "tis-620": "cp874", "iso-8859-11": "cp874", "x-cp1251": "cp1251", "cp-1251": "cp1251", "utf8": "utf-8",
    "unicode": "utf-16-le", "utf-16": "utf-16-le", "utf-32": "utf-32-le", "big5": "big5hkscs",
}  # fmt: skip
# The detector's results, and the codecs for what publishers mean by them.
_SCRIPTS = {
    "gb18030": "gb18030", "big5": "big5hkscs", "cp932": "cp932", "euc_jp": "euc_jp", "cp949": "cp949", "cp874": "cp874",
    "cp1251": "cp1251", "koi8_r": "koi8-r", "cp1253": "cp1253", "cp1255": "cp1255", "cp1256": "cp1256",
}  # fmt: skip
_TAGS = re.compile(rb"<[^<>]*>")
_SEARCHED = 200_000
_SAMPLE = 16_384
"""Bytes that the detector reads, which takes it a tenth of a second."""

_FEW = 16
"""Non-ASCII bytes that are too few to detect a script."""


class DocumentText:
    """A body with its real encoding, decoded as a whole or in pieces.

    Large documents are decoded in pieces, so that only one copy is in memory. `take` frees the bytes.
    """

    def __init__(self, body: bytes, content_type: str | None) -> None:
        self._body = body
        self._codec, self._errors, self._start = _encoding(body, content_type)

    def take(self) -> str:
        """The whole text. It can be taken only once."""
        body, self._body = self._body, b""
        return (body[self._start :] if self._start else body).decode(self._codec, self._errors)

    def pieces(self) -> Iterator[str]:
        """The text in pieces of at most `PIECE` characters."""
        decoder = codecs.getincrementaldecoder(self._codec)(self._errors)
        for start in range(self._start, len(self._body), PIECE):
            end = start + PIECE
            yield decoder.decode(self._body[start:end], end >= len(self._body))

    def __len__(self) -> int:
        return len(self._body)


def decode(body: bytes, content_type: str | None) -> str:
    """Decode `body`; never fails. U+FFFD replaces bytes that can't be decoded."""
    return DocumentText(body, content_type).take()


def _encoding(body: bytes, content_type: str | None) -> tuple[str, str, int]:
    """The codec, its error handling, and the start of the text."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return encoding, "replace", len(mark)
    for start, encoding in _UNMARKED:
        if body.startswith(start):
            return encoding, "replace", 0
    if not _fits(body, "utf-8"):
        return *_other_encoding(body, content_type), 0
    # ISO-2022-JP and similar encodings consist of ASCII bytes only.
    if b"\x1b" in body and (declared := _declared(body, content_type)) and (codec := _fitting(body, declared[0])):
        return codec, "strict", 0
    return "utf-8", "strict", 0


def _other_encoding(body: bytes, content_type: str | None) -> tuple[str, str]:
    declared = _declared(body, content_type)
    said_utf8 = any(_codec(name) == "utf-8" for name in declared)
    # A document that declares UTF-8 but is cut off or has a stray byte is still UTF-8, without that byte.
    if said_utf8 and _mostly_utf8(body, tolerance=1):
        return "utf-8", "replace"
    for name in declared:
        if _codec(name) != "utf-8" and (codec := _fitting(body, name)) is not None:
            return codec, "strict"
    if _mostly_utf8(body, tolerance=0.1):
        return "utf-8", "replace"
    guesses = (_fitting(body, guess) for guess in (_detected(body), _cyrillic(body), "cp1252") if guess)
    return next((codec for codec in guesses if codec), "latin-1"), "strict"


def _declared(body: bytes, content_type: str | None) -> list[str]:
    """The encodings declared by HTTP, the XML declaration and the HTML head, HTTP first."""
    found = []
    if content_type and (match := _CHARSET.search(content_type)):
        found.append(match[1])
    head = body[:2048]
    for pattern in (_XML, _META):
        if hit := pattern.search(head):
            found.append(hit[1].decode("ascii", "replace"))
    return found


def _mostly_utf8(body: bytes, tolerance: float) -> bool:
    """Whether at most `tolerance` bytes are broken for each valid non-ASCII sequence."""
    text = body[:200_000].decode("utf-8", "replace")
    broken = text.count("\ufffd")
    return broken <= tolerance * (sum(char > "\x7f" for char in text) - broken)


def _detected(body: bytes) -> str | None:
    """The detector's result for the first words outside of tags, unless these are mostly ASCII.

    Many encodings can decode the same bytes; it chooses by the frequency of letters and signs in languages.
    """
    words = _TAGS.sub(b" ", body[:_SEARCHED])
    sample = words[:_SAMPLE].rpartition(b" ")[0] or words[:_SAMPLE]
    high = sum(byte > 0x7F for byte in sample)
    letters = sum(byte > 0x7F or 0x41 <= byte & 0xDF <= 0x5A for byte in sample)
    if high < _FEW or high < 0.2 * letters:
        return None
    return _SCRIPTS.get(formats.best_encoding(sample, list(_SCRIPTS)) or "")


def _cyrillic(body: bytes) -> str | None:
    """The Cyrillic encoding, if words consist of letters that Latin scripts use only singly.

    Lower-case letters, by far the most frequent, are in the upper half of windows-1251 and in the lower of KOI8-R.
    """
    letters = re.sub(rb"<[^<>]*>|[^A-Za-z\x80-\xff]", b" ", body[:200_000])
    words = b"".join(re.findall(rb"[\xc0-\xff]{3,}", letters))
    if not words or len(words) < 0.2 * len(letters.replace(b" ", b"")):
        return None
    upper = sum(byte >= 0xE0 for byte in words)
    return "cp1251" if upper * 2 > len(words) else "koi8-r"


def _fitting(body: bytes, name: str) -> str | None:
    """The codec of that name if it can decode `body`."""
    codec = _codec(name)
    if _fits(body, codec):
        return codec
    # Bytes that windows-1252 leaves undefined are control characters in ISO-8859-1.
    return "latin-1" if codec == "cp1252" else None


def _fits(body: bytes, codec: str) -> bool:
    """Whether `codec` exists, is for text, and decodes all of `body`."""
    if codec == "utf-8" and body.isascii():
        return True
    try:
        b"text".decode(codec, "replace")  # raises for codecs that aren't for text
        decoder = codecs.getincrementaldecoder(codec)("strict")
        for start in range(0, len(body), PIECE):
            decoder.decode(body[start : start + PIECE], start + PIECE >= len(body))
    except (LookupError, ValueError):
        return False
    return True


def _codec(name: str) -> str:
    label = name.strip().lower()
    return _ALIASES.get(label, label)


def after_prologue(text: str) -> int:
    """The start of the root element, after declarations, comments and the document type."""
    position = 0
    while match := _PROLOGUE.match(text, position):
        position = match.end()
    return position
