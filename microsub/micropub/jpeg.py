"""JPEG without the metadata that cameras add: where and when it was taken, and with which camera. Pure.

Metadata is in segments before the picture (ISO/IEC 10918-1, B.1.1; Exif 2.32, 4.5): Exif and XMP in APP1, IPTC in
APP13, remarks in COM. The orientation is kept, since browsers rotate the picture by it; all else stays byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

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
    """The picture without place, time and camera; an invalid JPEG is returned unchanged."""
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
