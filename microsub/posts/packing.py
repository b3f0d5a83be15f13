"""The JSON of posts as it is stored: packed with zstandard (RFC 8878) and a dictionary of this package.

A packed post is one frame, whose header names its dictionary and the size of the JSON; JSON itself begins with `{`.
Both forms are read, so posts of earlier versions stay as they are until `posts.repacking` comes to them.

A dictionary is never changed, because what was packed with it needs it: a better one gets the next number, and a new
layout (`redis.migrations`), so that no program meets a dictionary that it lacks. `scripts/dictionary.py` trains them.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import structlog

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LARGEST = 8 * 1024 * 1024
"""Bytes of the largest JSON that is packed and unpacked: eight times the longest text that feeds may bring."""

LEVEL = 6
"""From here on, posts become less than a hundredth smaller, and packing takes half as long again at level 10."""

DICTIONARY = 1
"""The number of the dictionary with which posts are packed; it is also in the dictionary and in each frame."""

_MAGIC = b"\x28\xb5\x2f\xfd"
_BOUNDS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: LARGEST.bit_length() - 1}
_FOLDER = Path(__file__).parent / "dictionaries"

log = structlog.get_logger(__name__)


def packed(data: bytes) -> bytes:
    """The JSON of a post in the form in which it is stored; as it is if packing doesn't make it smaller."""
    if len(data) > LARGEST:
        return data
    frame = zstd.compress(data, LEVEL, zstd_dict=_dictionary(DICTIONARY).as_digested_dict)
    return frame if len(frame) < len(data) else data


def unpacked(stored: bytes, item_id: str) -> bytes:
    """The JSON of a stored post. Corrupt bytes are logged, and returned as they are: no JSON begins like them.

    At most `LARGEST` bytes are unpacked, whatever the stored ones say.
    """
    if not stored.startswith(_MAGIC):
        return stored
    try:
        return _unpack(stored)
    except (zstd.ZstdError, OSError, ValueError) as error:
        log.warning("a post is corrupt", item=item_id, error=str(error))
        return stored


def _unpack(stored: bytes) -> bytes:
    # All frames name this dictionary so far, and any other is refused.
    unpacking = zstd.ZstdDecompressor(zstd_dict=_dictionary(DICTIONARY), options=_BOUNDS)
    # One byte more than there may be, so that the end of the frame is read as well.
    found = unpacking.decompress(stored, LARGEST + 1)
    if not unpacking.eof or unpacking.unused_data or len(found) > LARGEST:
        raise ValueError("it isn't one whole frame of a post")
    return found


@functools.cache
def _dictionary(number: int) -> zstd.ZstdDict:
    """A dictionary of the package. Raises OSError if it has none of that number."""
    return zstd.ZstdDict((_FOLDER / f"{number}.zdict").read_bytes())
