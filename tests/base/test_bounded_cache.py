"""The bounded cache: its limits, in entries and by weight, and what it drops first."""

from __future__ import annotations

from microsub.base.bounded_cache import BoundedCache


def test_the_entry_used_longest_ago_is_dropped_first() -> None:
    """Setting and touching are uses; asking isn't."""
    cache: BoundedCache[str, int] = BoundedCache(3)
    cache.update({"a": 1, "b": 2, "c": 3})
    cache["a"] = 4
    cache.touch("b")
    assert cache.get("c") == 3
    cache["d"] = 5
    assert [name for name in "abcd" if name in cache] == ["a", "b", "d"]
    assert (cache.get("a"), cache.get("c"), len(cache)) == (4, None, 3)


def test_heavy_entries_displace_several_light_ones() -> None:
    """Replaced and dropped entries weigh nothing any more; one that is too heavy isn't kept."""
    cache: BoundedCache[str, bytes] = BoundedCache(10, len)
    for name in "abcde":
        cache[name] = b"12"
    cache["e"] = b"123"
    assert "a" not in cache
    assert cache.pop("b") == b"12"
    assert cache.pop("b") is None
    cache["f"] = b"123"
    assert [name for name in "cdef" if name in cache] == ["c", "d", "e", "f"]
    cache["g"] = b"1" * 11
    assert len(cache) == 0
    cache["h"] = b"1" * 10
    cache.clear()
    cache["i"], cache["j"] = b"1" * 5, b"1" * 5
    assert len(cache) == 2
