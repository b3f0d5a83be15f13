"""The `timeline` action: pages, marks, removals, moves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from microsub.accounts.quotas import UserQuotas
from microsub.timelines.item_cache import ItemCache
from tests.support.posts import NOON
from tests.support.readers import Reader, posts
from tests.support.world import World

FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"
NAMES = [f"p{number:02d}" for number in range(25, 0, -1)]


@pytest.fixture
async def full(alice: Reader, server: World) -> Reader:
    """Alice, whose channel `home` holds 25 unread posts, the newest `p25`."""
    server.now = NOON - 100
    await alice.post(action="follow", channel="home", url=FEED)
    server.now = NOON + 10_000
    await server.publish(FEED, *posts(*NAMES))
    return alice


async def test_a_page_of_one_source(full: Reader, server: World) -> None:
    """Only that feed's items, with the feed in the reply."""
    other = await server.publish(OTHER, *posts("x", "y", host="other.example", at=NOON - 20), title="Other")
    await full.post(action="follow", channel="home", url=OTHER)
    page = await full.get(action="timeline", channel="home", source=other.id)
    assert [item["name"] for item in page["items"]] == ["x", "y"]
    assert page["source"] == {"_id": other.id, "name": "Other", "url": OTHER}
    assert "source" not in await full.get(action="timeline", channel="home")
    assert (await full.get(404, action="timeline", channel="home", source="999"))["error"] == "not_found"
    await full.get(400, action="timeline", channel="home", source="../x")


async def test_pages_of_an_unfollowed_source_end_well(full: Reader, server: World) -> None:
    """Items that were read stay, and paging reaches the end over empty pages; no other feed is named."""
    other = await server.publish(OTHER, *posts("old", "older", host="other.example", at=NOON - 5000), title="Other")
    busy = await server.publish("https://busy.example/feed", *posts(*(f"n{number}" for number in range(1100))))
    for url in (OTHER, busy.url):
        await full.post(action="follow", channel="home", url=url)
    await full.post(action="timeline", method="mark_read", channel="home", last_read_entry="everything")
    await full.post(action="unfollow", channel="home", url=OTHER)
    assert len(await full.walk("home", source=other.id)) == 2
    assert len(await full.walk("home", source=other.id, limit=1)) == 2
    page = await full.get(action="timeline", channel="home")
    foreign = await server.feeds.ensure("https://private.example/feed", server.now)
    empty = await full.get(action="timeline", channel="home", source=foreign.id, after=page["paging"]["after"])
    assert (empty["items"], empty["source"]) == ([], {"_id": foreign.id})


async def test_unknown_channels_are_not_found(alice: Reader) -> None:
    """For reading and for every write."""
    assert (await alice.get(404, action="timeline", channel="nowhere"))["error"] == "not_found"
    for method in ("mark_read", "mark_unread", "remove", "move"):
        reply = await alice.post(404, action="timeline", method=method, channel="nowhere", entry="1")
        assert "nowhere" in reply["error_description"]
    await alice.post(400, action="timeline", method="move", channel="global", entry="1")


async def test_missing_parameters_are_named(alice: Reader) -> None:
    """Each error says what was expected."""
    assert "'channel' is missing" in (await alice.get(400, action="timeline"))["error_description"]
    for method in ("mark_read", "mark_unread", "remove", "move"):
        reply = await alice.post(400, action="timeline", method=method, channel="home")
        assert "'entry' is missing" in reply["error_description"]
    reply = await alice.post(400, action="timeline", channel="home")
    assert "'method' is missing: found nothing, expected one of mark_read" in reply["error_description"]


@pytest.mark.parametrize("method", ["mark_read", "mark_unread", "remove", "move"])
async def test_a_request_names_a_thousand_items_at_most(full: Reader, method: str) -> None:
    """The error has the number found and the maximum; nothing is changed."""
    before = await full.items("home")
    ids = [str(number) for number in range(1, 1002)]
    reply = await full.post(400, action="timeline", method=method, channel="home", **{"entry[]": ids})
    assert reply["error_description"] == "'entry' names too many items: found 1001, expected 1000 at most"
    assert await full.items("home") == before
    await full.post(action="timeline", method=method, channel="home", **{"entry[]": ids[1:]})


async def test_last_read_entry(full: Reader) -> None:
    """That item and all older ones; a removed item still marks its place; `everything` is the whole channel."""
    ids = await full.ids("home", limit=100)
    mark = {"action": "timeline", "method": "mark_read", "channel": "home"}
    assert await full.post(**mark, last_read_entry=ids[20]) == {"result": "ok", "updated": 5}
    await full.post(action="timeline", method="remove", channel="home", entry=ids[10])
    assert await full.post(**mark, last_read_entry=ids[10]) == {"result": "ok", "updated": 9}
    for unknown in ("999999", "nonsense", "-1"):
        assert await full.post(**mark, last_read_entry=unknown) == {"result": "ok", "updated": 0}
    assert await full.post(**mark, last_read_entry="everything") == {"result": "ok", "updated": 10}
    assert await full.unread("home") == 0


async def test_last_read_entry_of_all_channels_that_is_no_id(full: Reader) -> None:
    """It marks nothing, as an unknown id does."""
    mark = {"action": "timeline", "method": "mark_read", "channel": "global"}
    for unknown in ("999999", "nonsense", "-1", "1e5", "0x10", "\0", "9" * 5000):
        assert await full.post(**mark, last_read_entry=unknown) == {"result": "ok", "updated": 0}
    assert await full.unread("home") > 0


async def test_pages_of_one_user_are_read_one_after_the_other(
    full: Reader, bob: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seventy pages of 16 MB at once blocked Redis for all other users for two seconds."""
    get, go_on, begun = ItemCache.get, asyncio.Event(), asyncio.Event()
    under_way = most = 0

    async def held(cache: ItemCache, ids: Sequence[str], **how: bool) -> list[bytes | None]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        begun.set()
        if ids:
            await go_on.wait()
        under_way -= 1
        return await get(cache, ids, **how)

    monkeypatch.setattr(ItemCache, "get", held)
    pages = [asyncio.create_task(full.timeline("home")) for _ in range(4)]
    await begun.wait()
    assert not (await bob.get(action="timeline", channel="home"))["items"], "others are served meanwhile"
    go_on.set()
    assert [len(page) for page in await asyncio.gather(*pages)] == [25] * 4
    assert most == 2, "one of each user"


async def test_a_page_is_made_once_its_request_counts(full: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty pages of 16 MB that waited to be counted took half a gigabyte."""
    get, count, go_on, waits = ItemCache.get, UserQuotas.count, asyncio.Event(), asyncio.Event()
    made = 0

    async def making(cache: ItemCache, ids: Sequence[str], **how: bool) -> list[bytes | None]:
        nonlocal made
        made += 1
        return await get(cache, ids, **how)

    async def counting(quotas: UserQuotas, user: str, now: float) -> None:
        waits.set()
        await go_on.wait()
        await count(quotas, user, now)

    monkeypatch.setattr(ItemCache, "get", making)
    monkeypatch.setattr(UserQuotas, "count", counting)
    page = asyncio.create_task(full.timeline("home"))
    await waits.wait()
    assert made == 0
    go_on.set()
    assert (len(await page), made) == (25, 1)


@pytest.mark.parametrize("view", [{}, {"is_read": "false"}, {"source": "1"}])
async def test_a_page_of_large_posts_ends_early(
    alice: Reader, server: World, monkeypatch: pytest.MonkeyPatch, view: dict[str, str]
) -> None:
    """A page of a hundred was 392 MB. Its cursors lead through all items, in both directions."""
    monkeypatch.setattr("microsub.timelines.item_cache.PIECE", 200_000)
    await alice.post(action="follow", channel="home", url=FEED)
    names = [f"p{number}" for number in range(7, 0, -1)]
    await server.publish(FEED, *posts(*names[:5], at=NOON + 9, text="x" * 40_000), *posts(*names[5:]))
    down, after, sizes = [], {}, []
    while True:
        page = await alice.get(action="timeline", channel="home", limit=100, **view, **after)
        down += [item["name"] for item in page["items"]]
        sizes.append(len(page["items"]))
        if "after" not in page["paging"]:
            break
        after = {"after": page["paging"]["after"]}
    assert (down, sizes) == (names, [2, 2, 3])
    up, before = [item["name"] for item in page["items"]], page["paging"]["before"]
    while True:
        page = await alice.get(action="timeline", channel="home", limit=100, **view, before=before)
        if not page["items"]:
            break
        assert len(page["items"]) <= 2
        up = [item["name"] for item in page["items"]] + up
        before = page["paging"]["before"]
    assert up == names


async def test_a_page_has_at_least_one_post(alice: Reader, server: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large it is."""
    monkeypatch.setattr("microsub.timelines.item_cache.PIECE", 1000)
    await alice.post(action="follow", channel="home", url=FEED)
    await server.publish(FEED, *posts("one", "two", text="x" * 40_000))
    assert len(await alice.walk("home")) == 2
    assert len((await alice.get(action="timeline", channel="home"))["items"]) == 1
