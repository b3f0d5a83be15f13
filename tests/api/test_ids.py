"""`timeline` with `method=ids`, for apps that sync."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.readers import Reader, posts
from tests.support.world import World

FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"


@pytest.fixture
async def ids(server: World, alice: Reader) -> list[str]:
    """Five posts in Alice's channel `home`, newest first."""
    await server.publish(FEED, *posts("e", "d", "c", "b", "a"))
    await alice.post(action="follow", channel="home", url=FEED)
    return await alice.ids("home")


async def ask(reader: Reader, status: int = 200, **params: Any) -> dict[str, Any]:
    return await reader.get(status, action="timeline", method="ids", **params)


async def everything(reader: Reader, **params: Any) -> tuple[dict[str, dict[str, Any]], str]:
    """All items by id in the order of the replies, and the first reply's cursor for later."""
    found: dict[str, dict[str, Any]] = {}
    since, after = "", ""
    while True:
        reply = await ask(reader, after=after, **params)
        since = since or reply["paging"].get("since", "")
        for one in reply["items"]:
            assert one["_id"] not in found, "each item once"
            found[one["_id"]] = one
        if "after" not in reply["paging"]:
            return found, since
        after = reply["paging"]["after"]


async def test_ids_with_their_state(alice: Reader, ids: list[str]) -> None:
    """Newest arrival first; read and saved as in other replies; the same for all channels and for one."""
    await alice.post(action="timeline", method="mark_read", channel="home", entry=ids[1])
    await alice.post(action="timeline", method="save", entry=ids[2])
    found, _ = await everything(alice, limit=2)
    assert list(found) == ids
    assert [one["_is_read"] for one in found.values()] == [False, True, False, False, False]
    assert [one.get("_saved") for one in found.values()] == [None, None, True, None, None]
    assert [one["_arrived"] for one in found.values()] == sorted(
        (one["_arrived"] for one in found.values()), reverse=True
    )
    assert (await everything(alice, channel="home"))[0] == found
    assert list((await everything(alice, channel="saved"))[0]) == [ids[2]]
    assert list((await everything(alice, is_read="true"))[0]) == [ids[1]]
    assert list((await everything(alice, is_read="false", order="oldest"))[0]) == [*ids[:1:-1], ids[0]]
    assert (await everything(alice, channel="later"))[0] == {}


async def test_an_app_that_syncs_misses_nothing(server: World, alice: Reader, ids: list[str]) -> None:
    """All items at first; later the new arrivals, including old posts of a newly followed feed."""
    known, since = await everything(alice, limit=3)
    assert set(known) == set(ids)
    await server.publish(OTHER, *posts("z", "y", host="other.example", at=1_000_000_000))
    server.now += 60
    await alice.post(action="follow", channel="later", url=OTHER)
    new = await ask(alice, order="oldest", after=since)
    assert [one["_id"] for one in new["items"]] == list(reversed(await alice.ids("later")))
    assert not set(known) & {one["_id"] for one in new["items"]}
    nothing = await ask(alice, order="oldest", after=new["paging"]["since"])
    assert nothing == {"items": [], "paging": {}}
    await alice.post(action="timeline", method="remove", channel="later", entry=new["items"][0]["_id"])
    assert len((await everything(alice))[0]) == len(ids) + 1


async def test_bad_questions(alice: Reader, ids: list[str]) -> None:
    """Each error names the parameter; a limit that is too high counts as the maximum."""
    for params in ({"order": "random"}, {"after": "?"}, {"limit": "0"}, {"limit": "x"}, {"is_read": "maybe"}):
        (name,) = params
        assert f"'{name}'" in (await ask(alice, 400, **params))["error_description"]
    await ask(alice, 404, channel="nowhere")
    assert len((await ask(alice, limit=10**30))["items"]) == len(ids)
