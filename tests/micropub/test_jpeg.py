"""Metadata of cameras is removed from JPEG pictures; all else stays as it is."""

from __future__ import annotations

import random

import pytest

from microsub.micropub.jpeg import without_metadata

SCAN = b"\xff\xda\0\x02" + bytes(range(256)) + b"\xff\xe1\0\x08Exif\0\0 in the picture" + b"\xff\xd9"
TABLES = b"\xff\xdb\0\x04qt"
JFIF, ICC = b"\xff\xe0\0\x07JFIF\0", b"\xff\xe2\0\x0eICC_PROFILE\0"


def segment(marker: int, body: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(body) + 2).to_bytes(2, "big") + body


def exif(orientation: int, order: str = "big") -> bytes:
    """Exif data as cameras write it: maker, orientation, and a directory with the location."""

    def number(value: int, size: int) -> bytes:
        return value.to_bytes(size, "big" if order == "big" else "little")

    def entry(tag: int, kind: int, value: int, size: int) -> bytes:
        return number(tag, 2) + number(kind, 2) + number(1, 4) + number(value, size).ljust(4, b"\0")

    entries = entry(0x010F, 2, 65, 4) + entry(0x0112, 3, orientation, 2) + entry(0x8825, 4, 999, 4)
    head = b"MM\0*" if order == "big" else b"II*\0"
    return segment(0xE1, b"Exif\0\0" + head + number(8, 4) + number(3, 2) + entries + number(0, 4) + b"52.5 N 13.4 E")


def picture(*segments: bytes) -> bytes:
    return b"\xff\xd8" + b"".join(segments) + TABLES + SCAN


XMP, IPTC, REMARK = segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"), segment(0xED, b"Berlin"), segment(0xFE, b"me")


def test_place_time_and_camera_go() -> None:
    """Exif, XMP, IPTC and comments are removed; colour profile and picture stay byte for byte."""
    assert without_metadata(picture(JFIF, exif(1), XMP, ICC, IPTC, b"\xff", REMARK)) == picture(JFIF, ICC)
    assert without_metadata(picture(JFIF, ICC)) == picture(JFIF, ICC)


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("orientation", range(2, 9))
def test_the_way_up_stays(orientation: int, order: str) -> None:
    """Browsers rotate the picture by it; a second removal changes nothing."""
    found = without_metadata(picture(exif(orientation, order)))
    assert found == without_metadata(found)
    assert found.startswith(
        b"\xff\xd8\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0" + bytes((orientation,))
    )
    assert found.endswith(picture()[2:])
    assert b"13.4" not in found


@pytest.mark.parametrize("cut", range(2, 60))
def test_truncated_pictures_stay_unchanged(cut: int) -> None:
    """The data ends before the picture begins."""
    data = picture(exif(6))[:cut]
    assert without_metadata(data) == data


def test_random_changes_cause_no_error() -> None:
    """After random changes, the result is a picture or the original data."""
    chance = random.Random(7)
    whole = picture(JFIF, exif(6), XMP)
    for _ in range(3_000):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(2, len(data))] = chance.randrange(256)
        assert without_metadata(bytes(data)).startswith(b"\xff\xd8")


@pytest.mark.parametrize("endless", [b"\xff", segment(0xFE, b"")])
def test_endless_segments_are_not_read(endless: bytes) -> None:
    """10 MB of them blocked the server for seconds; such a picture stays as it is."""
    data = picture(endless * 2_000)
    assert without_metadata(data) == data
