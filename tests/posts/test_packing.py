"""The form in which the JSON of posts is stored."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from microsub.formats.wire import identified
from microsub.posts import packing
from microsub.posts.packing import LARGEST, packed, unpacked, zstd
from tests.support.posts import candidate

DICTIONARIES = Path(packing.__file__).parent / "dictionaries"
NEVER_CHANGED = {"1.zdict": "9a92f13419f3f8a8ea26f0a067c3cd2ec461c094a2ce8a1229fe07fd491b7f76"}
"""SHA-256 of every dictionary of a release."""
POST = identified(candidate("one").wire, "4711", "12")
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_any_json_comes_back_as_it_was(value):
    """A packed post is smaller than its JSON, a plain one is its JSON."""
    data = orjson.dumps(value)
    stored = packed(data)
    assert unpacked(stored, "1") == data
    assert stored == data or len(stored) < len(data)


def test_a_post_is_packed_and_names_its_dictionary_and_size():
    """The frame says by what it is unpacked, and how much that is."""
    stored = packed(POST)
    info = zstd.get_frame_info(stored)
    assert len(stored) < len(POST) / 2
    assert (info.dictionary_id, info.decompressed_size) == (packing.DICTIONARY, len(POST))


def test_a_post_that_packing_makes_no_smaller_stays_plain():
    """Bytes without any order, and too few of them."""
    for data in (b"{}", b'{"a":"%b"}' % random.Random(1).randbytes(4000).hex().encode("ascii")[:20]):
        assert packed(data) == data == unpacked(data, "1")


def test_a_post_of_more_than_the_largest_stays_plain():
    """What can't be unpacked isn't packed."""
    data = b'{"a":"' + b"a" * LARGEST + b'"}'
    assert packed(data) is data
    largest = data[: LARGEST - 2] + b'"}'
    assert len(packed(largest)) < 5000
    assert unpacked(packed(largest), "1") == largest


def frames(size: int) -> dict[str, bytes]:
    """Frames with `size` bytes, by what is wrong with them."""
    own = zstd.ZstdDict((DICTIONARIES / "1.zdict").read_bytes())
    data = b" " * size
    sized = zstd.ZstdCompressor(zstd_dict=own)
    streamed = sized.compress(data, sized.FLUSH_BLOCK) + sized.flush()
    another = zstd.ZstdDict(own.dict_content[:4] + (77).to_bytes(4, "little") + own.dict_content[8:])
    window = zstd.CompressionParameter.window_log
    return {
        "too many bytes": zstd.compress(data, zstd_dict=own),
        "an unknown number of bytes": streamed,
        "an unknown dictionary": zstd.compress(data[:100], zstd_dict=another),
        "a large window": zstd.compress(data, options={window: 27, zstd.CompressionParameter.content_size_flag: 0}),
    }


@pytest.mark.parametrize("wrong", frames(0))
def test_a_hostile_frame_is_not_unpacked(wrong):
    """It stays what it is, which no reader takes for JSON, and the log names the post."""
    stored = frames(LARGEST + 1)[wrong]
    assert len(stored) < 20_000
    with capture_logs() as logs:
        assert unpacked(stored, "4711") == stored
    assert [(one["event"], one["item"]) for one in logs] == [("a post is corrupt", "4711")]


def test_damaged_frames_are_never_taken_for_json():
    """Cut, lengthened, or with a changed header."""
    stored = packed(POST)
    damaged = [stored[:length] for length in range(4, len(stored))]
    damaged += [stored + b"\0", stored + stored]
    damaged += [stored[:at] + bytes([stored[at] ^ 0xFF]) + stored[at + 1 :] for at in range(4, 8)]
    with capture_logs() as logs:
        assert [unpacked(one, "1") for one in damaged] == damaged
    assert len(logs) == len(damaged)


def test_dictionaries_are_never_changed():
    """Posts that were packed with them would be lost. A new one gets the next number, and a new layout."""
    found = {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in DICTIONARIES.iterdir()}
    assert found == NEVER_CHANGED
