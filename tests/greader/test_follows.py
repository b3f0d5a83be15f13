"""Feeds and folders that native apps change."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from microsub.greader.ids import MOST_STREAMS
from tests.support.native_app import NativeApp
from tests.support.reader import Reader
from tests.support.readers import posts
from tests.support.world import World

FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"
HOME, LATER, NEW = "user/-/label/Home", "user/-/label/Later", "user/-/label/New"


async def feeds(app: NativeApp) -> dict[str, dict[str, Any]]:
    listed = (await app.json("subscription/list"))["subscriptions"]
    return {one["url"]: one for one in listed if one["id"] != "feed/other"}


async def folders(app: NativeApp, url: str) -> list[str]:
    return [category["id"] for category in (await feeds(app))[url]["categories"]]


@pytest.fixture
async def blog(server: World, alice: Reader, app: NativeApp) -> str:
    """The stream of a feed in Alice's channel `home`."""
    await server.publish(FEED, *posts("b", "a"))
    await alice.post(action="follow", channel="home", url=FEED)
    stream: str = (await feeds(app))[FEED]["id"]
    return stream


async def test_follow_and_unfollow(alice: Reader, app: NativeApp, blog: str) -> None:
    """With a name and a new folder, or without any; `i=null` and unknown parameters are ignored."""
    reply = await app.post("subscription/edit", ac="subscribe", s=f"feed/{OTHER}", t="My name", a=NEW, i="null")
    assert reply.text == "OK"
    found = (await feeds(app))[OTHER]
    assert (found["title"], found["categories"]) == ("My name", [{"id": NEW, "label": "New"}])
    await app.post("subscription/edit", ac="subscribe", s="feed/https://third.example/feed")
    assert await folders(app, "https://third.example/feed") == [HOME]
    await app.post("subscription/edit", ac="unsubscribe", s=[blog, f"feed/{OTHER}"])
    assert set(await feeds(app)) == {"https://third.example/feed"}
    assert [one["url"] for one in (await alice.get(action="follow", channel="global"))["items"]] == [
        "https://third.example/feed"
    ]


async def test_signs_of_feeds_that_cant_be_read_follow_at_once(
    server: World, alice: Reader, app: NativeApp, blog: str
) -> None:
    """When a feed is moved to another folder, unfollowed and followed again, in apps of both kinds."""
    attention = partial(server.parts.survey.attention, "alice")
    feed = await server.feeds.find(FEED)
    assert feed is not None
    await server.feeds.update(feed, {"failures": "1"})
    await server.parts.survey.look(server.now)
    assert await attention() == {"home": 1}
    await app.post("subscription/edit", ac="edit", s=blog, a=LATER)
    assert await attention() == {"later": 1}
    await app.post("subscription/edit", ac="unsubscribe", s=blog)
    assert await attention() == {}
    await alice.post(action="follow", channel="home", url=FEED)
    assert await attention() == {"home": 1}
    await alice.post(action="unfollow", channel="home", url=FEED)
    assert await attention() == {}


async def test_a_feed_that_is_followed_again_stays_in_its_folder(alice: Reader, app: NativeApp, blog: str) -> None:
    """Unless it is followed in another one: then it moves there."""
    await app.post("subscription/edit", ac="edit", s=blog, a=LATER)
    await app.post("subscription/edit", ac="subscribe", s=f"feed/{FEED}", t="My name")
    assert await folders(app, FEED) == [LATER]
    assert (await feeds(app))[FEED]["title"] == "My name"
    assert (await alice.get(action="follow", channel="home"))["items"] == []
    await app.post("subscription/edit", ac="subscribe", s=f"feed/{FEED}", a=NEW)
    assert await folders(app, FEED) == [NEW]
    assert (await alice.get(action="follow", channel="later"))["items"] == []


async def test_several_feeds_are_put_into_a_new_folder(server: World, alice: Reader, app: NativeApp, blog: str) -> None:
    """It is one folder. A request with a feed or address that can't be used, or too many labels, changes nothing."""
    before = {*await alice.channels()}
    for status, more in (
        (404, {"s": [blog, "feed/https://unknown.example/"]}),
        (400, {"s": blog, "r": [f"user/-/label/{number}" for number in range(MOST_STREAMS + 1)]}),
    ):
        await app.post("subscription/edit", status, ac="edit", a=NEW, **more)
    await app.post("subscription/edit", 400, ac="subscribe", s=[f"feed/{OTHER}", "feed/nonsense"], a=NEW)
    assert OTHER not in await feeds(app)
    assert {*await alice.channels()} == before
    await app.post("subscription/edit", ac="edit", s=[blog, blog], t=["One", "Two"], a=[NEW, LATER])
    await app.post(
        "subscription/edit", ac="subscribe", s=[f"feed/{OTHER}", "feed/https://third.example/"], a="user/-/label/More"
    )
    names = [channel["name"] for channel in (await alice.channels()).values()]
    assert sorted(names) == sorted({*names}), names


async def test_rename_and_move(server: World, alice: Reader, app: NativeApp, blog: str) -> None:
    await app.post("subscription/edit", ac="edit", s=blog, t="My name")
    assert (await feeds(app))[FEED]["title"] == "My name"
    assert (await alice.get(action="follow", channel="home"))["items"][0]["name"] == "My name"
    await app.post("subscription/edit", ac="edit", s=blog, a=LATER, r=HOME)
    assert await folders(app, FEED) == [LATER]
    assert len(await alice.ids("later")) == 2
    assert (await feeds(app))[FEED]["title"] == "My name"
    await app.post("subscription/edit", ac="edit", s=blog, r=LATER)
    assert await folders(app, FEED) == [LATER]


@pytest.mark.parametrize("more", [{}, {"t": "My name"}, {"r": "user/-/label/Nothing"}])
async def test_a_new_folder_alone_moves_a_feed(alice: Reader, app: NativeApp, blog: str, more: dict[str, str]) -> None:
    """Apps show one folder of a feed, and most name only the new one; a feed that is there already stays."""
    await app.post("subscription/edit", ac="edit", s=blog, a=NEW, **more)
    assert await folders(app, FEED) == [NEW]
    assert {len(await alice.ids(uid)) for uid in ("home", "later")} == {0}
    await app.post("subscription/edit", ac="edit", s=blog, a=NEW, **more)
    assert await folders(app, FEED) == [NEW]


async def test_a_feed_in_two_channels_is_in_one_folder(alice: Reader, app: NativeApp, blog: str) -> None:
    """The first; moving it takes it out of that one only."""
    await alice.post(action="follow", channel="later", url=FEED)
    assert await folders(app, FEED) == [HOME]
    await app.post("subscription/edit", ac="edit", s=blog, a=HOME, t="My name")
    assert (len(await alice.ids("home")), len(await alice.ids("later"))) == (2, 2)
    await app.post("subscription/edit", ac="edit", s=blog, a=LATER)
    assert await folders(app, FEED) == [LATER]
    assert (len(await alice.ids("home")), len(await alice.ids("later"))) == (0, 2)


async def test_equal_names_of_several_feeds(alice: Reader, app: NativeApp) -> None:
    """Each name belongs to the feed at its place; another number of names changes nothing."""
    given = [f"feed/https://{name}.example/feed" for name in "abc"]
    await app.post("subscription/edit", ac="subscribe", s=given, t=["News", "News", "Third"])
    assert [one["title"] for one in (await feeds(app)).values()] == ["News", "News", "Third"]
    await app.post("subscription/edit", 400, ac="edit", s=given, t=["One", "Two"])
    assert [one["title"] for one in (await feeds(app)).values()] == ["News", "News", "Third"]
    await app.post("subscription/edit", 400, ac="unsubscribe", s=[f"feed/{number}" for number in range(1001)])


async def test_quick_add(server: World, app: NativeApp, blog: str) -> None:
    """A followed feed counts as found; what leads to no feed is no error."""
    for query in (FEED, f"feed/{FEED}"):
        reply = (await app.post("subscription/quickadd", quickadd=query)).json()
        assert (reply["numResults"], reply["streamId"]) == (1, blog)
    nothing = (await app.post("subscription/quickadd", quickadd="https://nowhere.example/")).json()
    assert nothing == {"numResults": 0, "query": "https://nowhere.example/"}
    await app.post("subscription/quickadd", 400)


async def test_folders(alice: Reader, app: NativeApp, blog: str) -> None:
    """Feeds of a removed folder go to the first of the others; the only one stays."""
    await app.post("rename-tag", s=HOME, dest="user/-/label/At home")
    assert await folders(app, FEED) == ["user/-/label/At home"]
    await app.post("disable-tag", s="user/-/label/Nothing")
    await app.post("disable-tag", s="user/-/label/At home")
    assert await folders(app, FEED) == [LATER]
    assert len(await alice.ids("later")) == 2
    assert "only folder" in (await app.post("disable-tag", 400, s=LATER)).text
    assert await folders(app, FEED) == [LATER]
    await app.post("rename-tag", 400, s=LATER, dest="nonsense")


async def test_lists_of_feeds(server: World, app: NativeApp, blog: str) -> None:
    exported = await app.get("subscription/export")
    assert FEED in exported.text
    assert exported.headers["content-type"].startswith("text/x-opml")
    await app.post("subscription/edit", ac="unsubscribe", s=blog)
    url = f"{app.address}/reader/api/0/subscription/import"
    headers = {**app.headers, "Content-Type": "text/xml"}
    for kind in ("text/xml", "application/x-www-form-urlencoded"):  # RSS Guard's library adds the second
        await app.post("subscription/edit", ac="unsubscribe", s=f"feed/{FEED}")
        reply = await app.client.post(url, content=exported.content, headers={**headers, "Content-Type": kind})
        assert (reply.status_code, reply.text) == (200, "OK")
        assert await folders(app, FEED) == [HOME]
    refused = await app.client.post(url, content=b"no list", headers=headers)
    assert (refused.status_code, refused.text.count("\n")) == (400, 1)


async def test_empty_shapes(app: NativeApp) -> None:
    assert await app.json("preference/list") == {"prefs": []}
    assert await app.json("preference/stream/list") == {"streamprefs": {}}
    assert await app.json("friend/list") == {"friends": []}
    for name in ("preference/set", "preference/stream/set"):
        assert (await app.post(name, k="subscription-ordering", v="x", s="user/-/label/Home")).text == "OK"
        await app.get(name, 405)


async def test_bad_changes(app: NativeApp, blog: str) -> None:
    await app.post("subscription/edit", 400, ac="dance", s=blog)
    await app.post("subscription/edit", 400, ac="subscribe", s="feed/nonsense")
    await app.post("subscription/edit", 404, ac="edit", s="feed/999", t="x")
    await app.post("subscription/edit", ac="unsubscribe", s="feed/999")
    assert set(await feeds(app)) == {FEED}
