"""Invalid arguments for the post store: one kind of error, which names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from microsub.base.errors import InvalidRequest
from microsub.model.reader import Cursor
from microsub.post_store.store import PostStore
from tests.support.polling import FEED, World, post_store

GOOD = {"guid": "a", "timestamp": 1}


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


def holds_itself() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def shared(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found, found]
    return found


@pytest.fixture
async def posts(it: World) -> PostStore:
    found = post_store(it)
    await found.save(FEED, GOOD)
    return found


Call = Callable[[Any], Any]

LIMITS: list[Any] = [-1, 1.5, "3", None, True, float("nan"), [1]]
TEXTS: list[Any] = [1, None, b"a", ["a"], "\ud800"]
MAPPINGS: list[Any] = [[1], None, "a", [("guid", "a")], 5]

BAD: dict[str, tuple[str, Call, list[Any]]] = {
    "save feed": ("feed", lambda x: lambda p: p.save(x, GOOD), [*TEXTS, "nope", "file:///etc/passwd", "", "http://"]),
    "save fields": ("fields", lambda x: lambda p: p.save(FEED, x), MAPPINGS),
    "save guid": ("guid", lambda x: lambda p: p.save(FEED, {**GOOD, "guid": x}), [*TEXTS, "", " "]),
    "save timestamp": ("timestamp", lambda x: lambda p: p.save(FEED, {**GOOD, "timestamp": x}), [
        None, "", True, float("nan"), float("inf"), 1e20, 10**400, [], "2020-01-01T00:00:00",
    ]),
    "save value": ("x", lambda x: lambda p: p.save(FEED, {**GOOD, "x": x}), [
        nested(201), nested(5000), holds_itself(), shared(300), {"a": nested(5000)}, float("nan"), b"1", (1,), {1: 2},
        "\ud800", {"\ud800": 1}, object(), {1}, 10**5000, [float("inf")], [2**64, float("nan")], [2**64, (1,)],
        [2**64, {1: 2}],
    ]),
    "save name": ("name", lambda x: lambda p: p.save(FEED, {**GOOD, x: 1}), [3, "", None]),
    "save length": (
        "enclosure.length",
        lambda x: lambda p: p.save(FEED, {**GOOD, "enclosure": {"url": FEED, "length": x}}),
        [2**64, 2**63, -1, 1.5],
    ),
    "update fields": ("fields", lambda x: lambda p: p.update_or_create(FEED, "a", x), MAPPINGS),
    "update guid": ("guid", lambda x: lambda p: p.update_or_create(FEED, x, {}), [*TEXTS, ""]),
    "update another guid": ("guid", lambda x: lambda p: p.update_or_create(FEED, "a", {"guid": x}), ["b", 1, None]),
    "delete": ("post_id", lambda x: lambda p: p.delete(x), TEXTS),
    "expire": ("limit", lambda x: lambda p: p.expire(FEED, x), LIMITS),
    "expire feed": ("feed", lambda x: lambda p: p.expire(x, 1), TEXTS),
    "get": ("post_id", lambda x: lambda p: p.get(x), TEXTS),
    "get by guid feed": ("feed", lambda x: lambda p: p.get_by_guid(x, "a"), TEXTS),
    "get by guid": ("guid", lambda x: lambda p: p.get_by_guid(FEED, x), TEXTS),
    "newest feed": ("feed", lambda x: lambda p: p.newest(x), TEXTS),
    "newest": ("limit", lambda x: lambda p: p.newest(FEED, limit=x), LIMITS),
    "newest after": ("after", lambda x: lambda p: p.newest(FEED, after=x), [
        "a", 1, Cursor("x", "1"), Cursor("1", "x"), Cursor("nan", "1"), ("1", "1"),
    ]),
    "describe": ("fields", lambda x: lambda p: p.describe(FEED, x), MAPPINGS),
    "describe title": ("title", lambda x: lambda p: p.describe(FEED, {"title": x}), TEXTS),
    "describe other": ("bogus", lambda x: lambda p: p.describe(FEED, {"bogus": x}), ["a"]),
    "feed": ("feed", lambda x: lambda p: p.feed(x), TEXTS),
    "feeds": ("limit", lambda x: lambda p: p.feeds(limit=x), LIMITS),
    "feeds after": ("after", lambda x: lambda p: p.feeds(after=x), LIMITS),
    "release": ("feed", lambda x: lambda p: p.release(x), TEXTS),
    "events": ("after", lambda x: lambda p: p.events(after=x), [*TEXTS, "zz", "", "-1", "1-", "²", "9" * 30]),
    "events limit": ("limit", lambda x: lambda p: p.events(limit=x), LIMITS),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
async def test_invalid_arguments_are_refused_by_name(posts: PostStore, it: World, case: str) -> None:
    """Only InvalidRequest is raised; it names the argument, and nothing is written."""
    name, call, values = BAD[case]
    before = await keys_of(it)
    for value in values:
        with pytest.raises(InvalidRequest) as caught:
            await call(value)(posts)
        said = str(caught.value)
        assert said.startswith(("a field's name", f"'{name}'")), said
        assert "expected" in said
        assert len(said) < 400
    assert await keys_of(it) == before


async def keys_of(it: World) -> set[bytes]:
    """All keys, of all nodes."""
    return {key async for some in it.redis.scan() for key in some}


async def test_a_listener_is_a_function(posts: PostStore) -> None:
    """Otherwise the error would be raised at the first event, with no caller to handle it."""
    with pytest.raises(InvalidRequest, match="'listener'"):
        posts.listen("x")  # type: ignore[arg-type]


async def test_limits_of_any_size_count(posts: PostStore) -> None:
    """0 gives an empty page; more than there is gives all."""
    huge = 10**40
    assert (await posts.newest(FEED, limit=0)).posts == ()
    assert (await posts.feeds(limit=0)).feeds == ()
    assert (await posts.events(limit=0)).events == ()
    assert len((await posts.newest(FEED, limit=huge)).posts) == 1
    assert len((await posts.feeds(limit=huge)).feeds) == 1
    assert (await posts.feeds(after=huge)).feeds == ()
    assert len((await posts.events(limit=huge)).events) == 2
    assert await posts.expire(FEED, huge) == 0


async def test_the_same_guid_may_be_among_the_fields(posts: PostStore) -> None:
    """`Post.fields` with its guid may be given back."""
    saved = await posts.update_or_create(FEED, "a", {"guid": "a", "x": 1})
    assert saved.post.fields == {"x": 1}


NUMBERS = [2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**300, -(10**40), 1e300, 1e16, 1234567890123456789.5]


@pytest.mark.parametrize("number", NUMBERS)
async def test_numbers_of_any_size_come_back(posts: PostStore, number: float) -> None:
    """At any depth, also after an update of another field; unchanged numbers are no change."""
    fields = {"n": number, "list": [number, {"n": number}], "text": str(number), "né": "ü\u2028"}
    saved = await posts.save(FEED, {**GOOD, **fields})
    assert saved.post.fields == fields
    assert type(saved.post.fields["n"]) is type(number)
    assert type(saved.post.fields["list"][1]["n"]) is type(number)
    again = await posts.update_or_create(FEED, "a", {"other": 1})
    assert again.changed == ("other",)
    assert again.post.fields == {**fields, "other": 1}
    assert (await posts.save(FEED, {**GOOD, **fields, "other": 1})).changed == ()


async def test_deeply_nested_fields_are_returned(posts: PostStore) -> None:
    """The documented depth works, with and without large numbers."""
    fields = {"x": nested(200), "y": [2**70, nested(199)]}
    assert (await posts.save(FEED, {**GOOD, **fields})).post.fields == fields
