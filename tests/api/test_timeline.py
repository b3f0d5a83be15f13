"""The `timeline` action: pages, marks, removals, moves."""

from __future__ import annotations

import re

import pytest

from tests.support.posts import NOON
from tests.support.readers import Instance, Reader, posts

FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"
NAMES = [f"p{number:02d}" for number in range(25, 0, -1)]


@pytest.fixture
async def full(alice: Reader, server: Instance) -> Reader:
    """Alice, whose channel `home` holds 25 unread posts, the newest `p25`."""
    server.now = NOON - 100
    await alice.post(action="follow", channel="home", url=FEED)
    server.now = NOON + 10_000
    await server.publish(FEED, *posts(*NAMES))
    return alice


async def test_an_item_has_everything_that_clients_need(full: Reader) -> None:
    """`_id`, `_source` and `_is_read` of the right types, the channel, an author, and the post itself."""
    page = await full.get(action="timeline", channel="home", limit=1)
    (item,) = page["items"]
    assert re.fullmatch(r"[A-Za-z0-9_-]+", item["_id"])
    assert isinstance(item["_source"], str)
    assert item["_is_read"] is False
    assert item["_channel"] == {"id": "home", "uid": "home", "name": "Home"}
    assert item["type"] == "entry"
    assert item["author"]["type"] == "card"
    assert item["name"] == "p25"


async def test_pages_visit_every_item_once(full: Reader, server: Instance) -> None:
    """Following `after` from the first page, also while items come in and all have one timestamp."""
    assert len(await full.ids("home")) == 20
    assert len(await full.ids("home", limit=1000)) == 25
    expected = await full.ids("home", limit=100)
    assert await full.walk("home", limit=7) == expected
    await server.publish(OTHER, *posts(*[f"t{number}" for number in range(30)], host="other.example"))
    await full.post(action="follow", channel="later", url=OTHER)
    assert len(set(await full.walk("later", limit=4))) == 30


async def test_paging_is_always_an_object(full: Reader) -> None:
    """`after` only where older items exist; `before` on every non-empty page; both safe in any URL."""
    first = await full.get(action="timeline", channel="home", limit=24)
    last = await full.get(action="timeline", channel="home", after=first["paging"]["after"])
    assert set(first["paging"]) == {"before", "after"}
    assert set(last["paging"]) == {"before"}
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", cursor) for cursor in first["paging"].values())
    assert (await full.get(action="timeline", channel="later")) == {"items": [], "paging": {}}


async def test_before_gives_the_adjacent_newer_items(full: Reader, server: Instance) -> None:
    """Or none; a client that polls with the stored cursor misses nothing."""
    newest = (await full.get(action="timeline", channel="home", limit=1))["paging"]["before"]
    assert await full.ids("home", before=newest) == []
    await server.publish(FEED, *posts("q3", "q2", "q1", at=NOON + 50))
    page = await full.get(action="timeline", channel="home", before=newest, limit=2)
    assert [item["name"] for item in page["items"]] == ["q2", "q1"]
    assert await full.names("home", before=page["paging"]["before"]) == ["q3"]


async def test_a_malformed_cursor_is_refused(full: Reader) -> None:
    """With the parameter's name, not taken for the first page."""
    for name in ("before", "after"):
        reply = await full.get(400, action="timeline", channel="home", **{name: "nonsense"})
        assert reply["error"] == "invalid_request"
        assert f"'{name}'" in reply["error_description"]


async def test_read_and_unread_views(full: Reader) -> None:
    """`is_read` filters; both together are everything; paging holds inside."""
    ids = await full.ids("home", limit=100)
    await full.post(action="timeline", method="mark_read", channel="home", **{"entry[]": ids[::2]})
    assert await full.walk("home", is_read="true", limit=3) == ids[::2]
    assert await full.walk("home", is_read="false", limit=3) == ids[1::2]
    assert all(item["_is_read"] for item in await full.items("home", is_read="true"))
    assert await full.unread("home") == 12


async def test_a_page_of_one_source(full: Reader, server: Instance) -> None:
    """Only that feed's items, with the feed beside them."""
    other = await server.publish(OTHER, *posts("x", "y", host="other.example", at=NOON - 20), title="Other")
    await full.post(action="follow", channel="home", url=OTHER)
    page = await full.get(action="timeline", channel="home", source=other.id)
    assert [item["name"] for item in page["items"]] == ["x", "y"]
    assert page["source"] == {"_id": other.id, "name": "Other", "url": OTHER}
    assert "source" not in await full.get(action="timeline", channel="home")
    assert (await full.get(404, action="timeline", channel="home", source="999"))["error"] == "not_found"
    await full.get(400, action="timeline", channel="home", source="../x")


async def test_pages_of_an_unfollowed_source_end_well(full: Reader, server: Instance) -> None:
    """What was read stays and can be paged to its end, over pages without any; nothing is told of other feeds."""
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


async def test_marking_counts_changes(full: Reader) -> None:
    """`updated` is the number of items whose state changed; marking again changes none; unknown ids are ignored."""
    one, two, *_ = await full.ids("home")
    mark = {"action": "timeline", "method": "mark_read", "channel": "home"}
    assert await full.post(**mark, **{"entry[]": [one, two, "999999", "x"]}) == {"result": "ok", "updated": 2}
    assert await full.post(**mark, **{"entry[]": [one, two]}) == {"result": "ok", "updated": 0}
    assert await full.unread("home") == 23
    assert await full.post(**mark | {"method": "mark_unread"}, entry=one) == {"result": "ok", "updated": 1}
    assert await full.unread("home") == 24
    assert await full.post(**mark, entry="x") == {"result": "ok", "updated": 0}


async def test_last_read_entry(full: Reader) -> None:
    """That item and everything older; a removed item stands for its place; `everything` is the whole channel."""
    ids = await full.ids("home", limit=100)
    mark = {"action": "timeline", "method": "mark_read", "channel": "home"}
    assert await full.post(**mark, last_read_entry=ids[20]) == {"result": "ok", "updated": 5}
    await full.post(action="timeline", method="remove", channel="home", entry=ids[10])
    assert await full.post(**mark, last_read_entry=ids[10]) == {"result": "ok", "updated": 9}
    for unknown in ("999999", "nonsense", "-1"):
        assert await full.post(**mark, last_read_entry=unknown) == {"result": "ok", "updated": 0}
    assert await full.post(**mark, last_read_entry="everything") == {"result": "ok", "updated": 10}
    assert await full.unread("home") == 0


async def test_removed_items_do_not_come_back(full: Reader, server: Instance) -> None:
    """Not with the next poll, not after following anew."""
    first, *rest = await full.ids("home", limit=100)
    remove = {"action": "timeline", "method": "remove", "channel": "home"}
    assert await full.post(**remove, entry=first) == {"result": "ok", "updated": 1}
    assert await full.post(**remove, entry=first) == {"result": "ok", "updated": 0}
    await server.publish(FEED, *posts(*NAMES))
    await full.post(action="unfollow", channel="home", url=FEED)
    await full.post(action="follow", channel="home", url=FEED)
    assert set(await full.ids("home", limit=100)) == set(rest)


async def test_move_keeps_the_read_state(full: Reader) -> None:
    """`channel` is the target; the item leaves where it was."""
    read, unread, *_ = await full.ids("home")
    await full.post(action="timeline", method="mark_read", channel="home", entry=read)
    moved = await full.post(action="timeline", method="move", channel="later", **{"entry[]": [read, unread]})
    assert moved == {"result": "ok", "updated": 2}
    assert [(item["_id"], item["_is_read"]) for item in await full.items("later")] == [(read, True), (unread, False)]
    assert not {read, unread} & set(await full.ids("home", limit=100))
    await full.post(400, action="timeline", method="move", channel="global", entry=read)
    await full.post(404, action="timeline", method="move", channel="nowhere", entry=read)


async def test_global_merges_all_channels(full: Reader, server: Instance) -> None:
    """Each item once; marking there marks wherever the item is; `is_read=false` is the all-unread view."""
    await server.publish(OTHER, *posts("x", "y", host="other.example", at=NOON + 3))
    for uid in ("home", "later"):
        await full.post(action="follow", channel=uid, url=OTHER)
    everything = await full.walk("global", limit=10)
    assert len(everything) == len(set(everything)) == 27
    (x,) = [item["_id"] for item in await full.items("later") if item["name"] == "x"]
    await full.post(action="timeline", method="mark_read", channel="global", entry=x)
    for uid in ("home", "later"):
        assert {item["_id"]: item["_is_read"] for item in await full.items(uid, limit=100)}[x] is True
    assert x not in await full.ids("global", is_read="false", limit=100)
    done = await full.post(action="timeline", method="mark_read", channel="global", last_read_entry="everything")
    assert done == {"result": "ok", "updated": 26}
    assert await full.ids("global", is_read="false") == []


async def test_unknown_channels_are_not_found(alice: Reader) -> None:
    """For reading and for every write."""
    assert (await alice.get(404, action="timeline", channel="nowhere"))["error"] == "not_found"
    for method in ("mark_read", "mark_unread", "remove", "move"):
        reply = await alice.post(404, action="timeline", method=method, channel="nowhere", entry="1")
        assert "nowhere" in reply["error_description"]


async def test_missing_parameters_are_named(alice: Reader) -> None:
    """Each with what was expected."""
    assert "'channel' is missing" in (await alice.get(400, action="timeline"))["error_description"]
    for method in ("mark_read", "mark_unread", "remove", "move"):
        reply = await alice.post(400, action="timeline", method=method, channel="home")
        assert "'entry' is missing" in reply["error_description"]
    reply = await alice.post(400, action="timeline", channel="home")
    assert "'method' is missing: found nothing, expected one of mark_read" in reply["error_description"]


@pytest.mark.parametrize("method", ["mark_read", "mark_unread", "remove", "move"])
async def test_a_request_names_a_thousand_items_at_most(full: Reader, method: str) -> None:
    """The error says how many were found, and how many may be; nothing is done."""
    before = await full.items("home")
    ids = [str(number) for number in range(1, 1002)]
    reply = await full.post(400, action="timeline", method=method, channel="home", **{"entry[]": ids})
    assert reply["error_description"] == "'entry' names too many items: found 1001, expected 1000 at most"
    assert await full.items("home") == before
    await full.post(action="timeline", method=method, channel="home", **{"entry[]": ids[1:]})
