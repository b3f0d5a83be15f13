"""The texts of well-formed feeds as feedparser would leave them, with its repairs only where something is broken."""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress

# What windows-1252 has where Unicode has controls that nobody means. Five of its places are empty.
_CONTROLS = re.compile("[\x80-\x9f]")
_MEANT = {code: bytes([code]).decode("cp1252") for code in range(0x80, 0xA0) if code not in b"\x81\x8d\x8f\x90\x9d"}


def unwrapped(pieces: list[str]) -> list[str]:
    """XHTML content without the one `div` that RFC 4287, 3.1.1.3, wants around all of it."""
    first, last = 0, len(pieces)
    while last - first > 1 and not pieces[last - 1].strip():
        last -= 1
    while last - first > 1 and not pieces[first].strip():
        first += 1
    pieces = pieces[first:last]
    if not pieces or not pieces[0].startswith(("<div>", "<div ")) or pieces[-1] != "</div>":
        return pieces
    depth = 0
    for piece in pieces[:-1]:
        if piece.startswith("</"):
            depth -= 1
            if depth == 0:
                return pieces  # the first `div` ends before the last piece does
        elif piece.startswith("<"):
            depth += 1
    return pieces[1:-1]


def may_be_html(text: str) -> bool:
    """Whether feedparser should look: it wants an end tag or a reference."""
    return "</" in text or "&" in text


def from_base64(text: str) -> str:
    """What `text` stands for, or `text` where it stands for nothing."""
    try:
        return base64.decodebytes(text.encode()).decode()
    except (binascii.Error, ValueError):
        return text


def repaired(text: str) -> str:
    """Text with what was UTF-8 and has been read as ISO-8859-1, or windows-1252 as controls, put right."""
    with suppress(ValueError):
        text = text.encode("iso-8859-1").decode("utf-8")
    return text.translate(_MEANT) if _CONTROLS.search(text) else text
