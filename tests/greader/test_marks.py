"""Marks, stars and labels of native apps, which Microsub apps see at once, and the reverse."""

from __future__ import annotations

import pytest

from microsub.greader.ids import MOST_STREAMS, long_form
from tests.support.native_app import NativeApp, numbered, publish_notice
from tests.support.reader import Reader
from tests.support.readers import posts
from tests.support.world import World

FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"
ALL = "user/-/state/com.google/reading-list"
READ = "user/-/state/com.google/read"
UNREAD = "user/-/state/com.google/kept-unread"
STARRED = "user/-/state/com.google/starred"
HOME, LATER, NEW = "user/-/label/Home", "user/-/label/Later", "user/-/label/New & hot"


async def edit(app: NativeApp, *items: str, **tags: str | list[str]) -> None:
    reply = await app.post("edit-tag", i=list(items), **tags)
    assert reply.text == "OK"


async def test_read_and_unread_in_every_form(alice: Reader, app: NativeApp, ids: list[str]) -> None:
    """In all channels that hold the post; `read` and `kept-unread` are opposites."""
    await alice.post(action="follow", channel="later", url=FEED)
    long = f"tag:google.com,2005:reader/item/{int(ids[1]):016x}"
    await edit(app, ids[0], long, ids[2][:-1] + "9" * 3, "nonsense", a=READ, r=UNREAD, T="x", async_="true")
    assert await app.ids(UNREAD) == ids[2:]
    assert await alice.unread("home") == await alice.unread("later") == 3
    await edit(app, ids[0], a=UNREAD, r=READ)
    await edit(app, ids[1], r=READ)
    assert await app.ids(UNREAD) == ids
    await edit(app, ids[0], r=UNREAD)
    assert await app.ids(READ) == [ids[0]]
    await edit(app, ids[0], a=UNREAD)
    await edit(app, ids[0], a="user/-/state/com.google/tracking-kept-unread", r="nonsense")
    assert await app.ids(READ) == []
    await alice.post(action="timeline", method="mark_read", channel="global", entry=str(int(ids[4]) - 10**15))
    assert await app.ids(READ) == [ids[4]]


async def test_stars_are_saved_posts(alice: Reader, app: NativeApp, ids: list[str]) -> None:
    await edit(app, ids[1], ids[2], a=STARRED)
    assert numbered(await alice.ids("saved")) == await app.ids(STARRED) == ids[1:3]
    await edit(app, ids[1], r=STARRED)
    assert await app.ids(STARRED) == [ids[2]]


async def test_labels_copy_posts_into_channels(alice: Reader, app: NativeApp, ids: list[str]) -> None:
    """A label that isn't there is created; taking it off takes posts out, and the last one brings them home."""
    await edit(app, ids[0], a=READ)
    await edit(app, ids[0], ids[1], a=NEW)
    assert await app.ids(NEW) == ids[:2]
    assert await app.ids(HOME) == ids
    assert await app.ids(READ) == [ids[0]]
    await edit(app, ids[0], r=NEW)
    assert await app.ids(NEW) == [ids[1]]
    await edit(app, ids[0], a=NEW)
    assert await app.ids(NEW) == ids[:2]
    await edit(app, ids[1], r=HOME)
    assert await app.ids(HOME) == [ids[0], *ids[2:]]
    await edit(app, ids[1], r=NEW)
    assert sorted(await app.ids(HOME)) == sorted(ids)
    assert await app.ids(NEW) == [ids[0]]
    await edit(app, ids[2], r=HOME)
    assert sorted(await app.ids(HOME)) == sorted(ids)


async def test_a_label_comes_back(alice: Reader, app: NativeApp, ids: list[str]) -> None:
    """To posts that were taken out of a channel that follows their feed, and with their state."""
    await edit(app, *ids[:3], a=LATER)
    await edit(app, *ids[:3], r=HOME)
    assert await app.ids(HOME) == ids[3:]
    await edit(app, ids[0], a=READ)
    await edit(app, ids[0], ids[1], a=HOME)
    assert await app.ids(HOME) == [*ids[:2], *ids[3:]]
    assert await app.ids(HOME, it=READ) == await app.ids(LATER, it=READ) == [ids[0]]
    assert await app.ids(LATER) == ids[:3]


async def test_from_one_folder_into_another_in_one_request(alice: Reader, app: NativeApp, ids: list[str]) -> None:
    await edit(app, ids[0], a=LATER, r=HOME)
    await edit(app, ids[1], a=NEW, r=HOME)
    assert await app.ids(HOME) == ids[2:]
    assert (await app.ids(LATER), await app.ids(NEW)) == (ids[:1], [ids[1]])


async def test_a_notice_stays_when_its_label_goes(server: World, alice: Reader, app: NativeApp) -> None:
    await publish_notice(server, alice)
    (notice,) = numbered(await alice.ids("notifications"))
    await edit(app, notice, a=LATER)
    await edit(app, notice, r=LATER)
    assert await app.ids(LATER) == await app.ids(HOME) == []
    assert numbered(await alice.ids("notifications")) == [notice]


async def test_what_a_change_announces(server: World, alice: Reader, app: NativeApp, ids: list[str]) -> None:
    """Marks are no news to backend.json and the hub's topics; stars and labels are to topics, new folders to both."""
    told: list[str] = []

    async def topics(_user: str, _now: float) -> None:
        told.append("topics")

    server.use(changed=lambda: told.append("declarations"), topics_changed=topics)
    for tags, expected in (
        ({"a": READ}, []),
        ({"r": READ}, []),
        ({"a": STARRED}, ["topics"]),
        ({"a": LATER}, ["topics"]),
        ({"r": LATER}, ["topics"]),
        ({"a": NEW}, ["declarations", "topics"]),
        ({"a": NEW}, ["topics"]),
    ):
        await edit(app, ids[0], **tags)
        assert told == expected, tags
        told.clear()
    await app.post("mark-all-as-read", s=ALL)
    assert told == []
    await app.post("subscription/edit", ac="edit", s=f"feed/{FEED}", t="My name")
    assert told == ["declarations", "topics"]


async def test_a_folder_without_items(app: NativeApp, alice: Reader) -> None:
    await edit(app, a=NEW)
    assert {"id": NEW, "type": "folder"} in (await app.json("tag/list"))["tags"]
    assert "New & hot" in {channel["name"] for channel in (await alice.channels()).values()}


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
async def test_marking_everything_that_had_arrived(
    server: World, alice: Reader, app: NativeApp, ids: list[str], unit: int
) -> None:
    """`ts` in every unit; posts that arrived later stay unread, however old they are."""
    synced = int(server.now)
    server.now += 60
    await server.publish(OTHER, *posts("z", host="other.example", at=1_000_000_000))
    await alice.post(action="follow", channel="later", url=OTHER)
    (late,) = numbered(await alice.ids("later"))
    reply = await app.post("mark-all-as-read", s=ALL, ts=(synced + 1) * unit)
    assert reply.text == "OK"
    assert await app.ids(UNREAD) == [late]
    await app.post("mark-all-as-read", s=HOME, ts=int(server.now + 100) * unit)
    assert await app.ids(UNREAD) == [late]


async def test_marking_a_stream_without_a_time(server: World, alice: Reader, app: NativeApp, ids: list[str]) -> None:
    await server.publish(OTHER, *posts("z", host="other.example"))
    await alice.post(action="follow", channel="later", url=OTHER)
    (late,) = numbered(await alice.ids("later"))
    await app.post("mark-all-as-read", s=f"feed/{FEED}")
    assert await app.ids(UNREAD) == [late]
    await app.post("mark-all-as-read", s="user/-/label/Nothing")
    await app.post("mark-all-as-read", s="nonsense")
    assert await app.ids(UNREAD) == [late]
    await app.post("mark-all-as-read", s=LATER)
    assert await app.ids(UNREAD) == []


async def test_ten_thousand_items_with_their_tokens(app: NativeApp, ids: list[str]) -> None:
    named = [long_form(str(number)) for number in range(1, 10_001)]
    assert (await app.post("edit-tag", i=named, T=["x" * 57] * 10_000, a=READ)).text == "OK"
    assert await app.ids(READ) == ids


async def test_bad_marks(app: NativeApp, alice: Reader, ids: list[str]) -> None:
    """Errors are one line of text, and change nothing."""
    await app.post("mark-all-as-read", 400, ts="yesterday")
    await app.post("edit-tag", 400, i=[str(10**15 + number) for number in range(1, 10_002)], a=READ)
    await app.get("edit-tag", 405, i=ids[0], a=READ)
    await edit(app, "nonsense", a=[READ, NEW])
    assert await app.ids(UNREAD) == ids
    assert await alice.unread("home") == 5
    assert NEW not in {tag["id"] for tag in (await app.json("tag/list"))["tags"]}


async def test_posts_of_another_user_cannot_be_marked(server: World, app: NativeApp, bob: Reader) -> None:
    await server.publish(OTHER, *posts("private", host="other.example"))
    await bob.post(action="follow", channel="home", url=OTHER)
    his = numbered(await bob.ids("home"))
    await edit(app, *his, a=[READ, STARRED, NEW])
    assert await app.ids() == []
    assert await bob.unread("home") == 1


async def test_a_request_names_few_streams(alice: Reader, app: NativeApp, ids: list[str]) -> None:
    """A body has room for ten thousand labels, and each would be a channel with copies: two minutes of work."""
    before = await alice.channels()
    labels = [f"user/-/label/{number}" for number in range(MOST_STREAMS + 1)]
    marked, moved = {"i": ids[0], "a": labels}, {"ac": "edit", "s": f"feed/{FEED}", "a": labels}
    taken, asked, left_out = {"i": ids[0], "a": READ, "r": labels}, {"it": labels}, {"xt": labels}
    for name, fields in (
        ("edit-tag", marked),
        ("edit-tag", taken),
        ("subscription/edit", moved),
        ("stream/items/ids", {"s": ALL, **asked}),
        ("stream/contents", {"s": ALL, **left_out}),
    ):
        assert "too many streams" in (await app.post(name, 400, **fields)).text
    assert await alice.channels() == before
    assert await app.ids(READ) == []
    await edit(app, ids[0], a=labels[1:])
    assert len(await alice.channels()) == len(before) + MOST_STREAMS
