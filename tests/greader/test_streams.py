"""Tags, subscriptions, counts, streams and contents, as native apps read them."""

from __future__ import annotations

import asyncio
import gc
import re
import tracemalloc
from collections.abc import Sequence
from itertools import chain
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import feedparser
import pytest

from microsub.base.errors import StoreIncomplete, StoreUnavailable
from microsub.feeds import Event
from microsub.greader import reads
from microsub.greader.ids import long_form
from microsub.redis.protocol import Command, Redis
from microsub.timelines import views
from tests.support.native_app import NativeApp, numbered, publish_notice
from tests.support.reader import Reader
from tests.support.readers import posts
from tests.support.world import World

FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"
ALL = "user/-/state/com.google/reading-list"
READ = "user/-/state/com.google/read"
STARRED = "user/-/state/com.google/starred"
HOME, LATER = "user/-/label/Home", "user/-/label/Later"


async def mark(alice: Reader, item: str, method: str, **more: str) -> None:
    await alice.post(action="timeline", method=method, entry=str(int(item) - 10**15), **more)


async def test_folders_and_feeds(server: World, alice: Reader, app: NativeApp, ids: list[str]) -> None:
    """Own channels are folders by name; a feed is in one of them, the first; all values are texts."""
    await alice.post(action="follow", channel="later", url=FEED)
    tags = (await app.json("tag/list"))["tags"]
    assert tags == [{"id": STARRED}, {"id": HOME, "type": "folder"}, {"id": LATER, "type": "folder"}]
    listed = (await app.json("subscription/list"))["subscriptions"]
    blog = next(one for one in listed if one["url"] == FEED)
    assert blog["title"] == "A blog"
    assert blog["categories"] == [{"id": HOME, "label": "Home"}]
    for one in listed:
        assert all(isinstance(value, str) for name, value in one.items() if name != "categories")
        assert all(one[name] for name in ("id", "title", "url", "htmlUrl"))
        assert {category["id"] for category in one["categories"]} <= {tag["id"] for tag in tags}
    assert [one["url"] for one in listed] == [FEED]


async def test_lists_say_when_nothing_changed(alice: Reader, app: NativeApp, ids: list[str]) -> None:
    """304 for a known ETag until a name, folder or feed changes, and then at once."""
    for name in ("tag/list", "subscription/list"):
        first = await app.get(name)
        assert "last-modified" not in first.headers
        headers = {**app.headers, "If-None-Match": first.headers["etag"]}
        url = f"{app.address}/reader/api/0/{name}"
        assert (await app.client.get(url, headers=headers)).status_code == 304
        await alice.post(action="channels", channel="home", name=f"Home of {name}")
        assert (await app.client.get(url, headers=headers)).status_code == 200


async def test_ids_in_order_of_arrival(server: World, alice: Reader, app: NativeApp, ids: list[str]) -> None:
    """Old posts of a newly followed feed come first, so an app that asks since its last sync gets them."""
    assert await app.ids() == ids
    assert await app.ids(r="o") == ids[::-1]
    assert await app.ids(n=2) == ids
    assert await app.ids(n=2, r="o") == ids[::-1]
    await server.publish(OTHER, *posts("z", "y", host="other.example", at=1_000_000_000))
    server.now += 60
    synced = int(server.now)
    await alice.post(action="follow", channel="later", url=OTHER)
    old = numbered(await alice.ids("later"))
    assert await app.ids() == [*old, *ids]
    assert await app.ids(ot=synced) == old
    assert await app.ids(ot=synced, r="o") == old[::-1]
    assert await app.ids(nt=synced) == ids
    assert await app.ids(ot=synced + 60) == []
    assert await app.ids(ot=synced, n=1) == old


async def test_edited_posts_are_listed_again(server: World, alice: Reader, app: NativeApp, ids: list[str]) -> None:
    """Apps that ask for what came since their last sync get the new text, and only of posts of this user."""
    server.now += 60
    synced = int(server.now)
    assert await app.ids(ot=synced) == []
    blog = await server.publish(FEED, *posts("c", text="edited"))
    other = await server.publish(OTHER, *posts("new", host="other.example", at=server.now))
    (foreign,) = await server.items.newest(other.id, 1)
    mine = str(int(ids[2]) - 10**15)
    await server.events.announce(
        [Event("post_modified", feed, server.now, item) for feed, item in ((blog.id, mine), (other.id, foreign))]
    )
    assert await app.ids(ot=synced) == [ids[2]]
    for order in ("n", "o"):
        assert await app.ids(ot=synced, n=1, r=order) == [ids[2]]
    assert await app.ids(ot=synced, xt=READ) == [ids[2]]
    assert await app.ids(ot=synced, it=READ) == []
    assert await app.ids(ot=synced + 1) == []


async def test_streams_and_tags(server: World, alice: Reader, app: NativeApp, ids: list[str]) -> None:
    await mark(alice, ids[1], "mark_read", channel="home")
    await mark(alice, ids[2], "save")
    await mark(alice, ids[1], "save")
    feed = (await app.json("subscription/list"))["subscriptions"][0]["id"]
    unread = [ids[0], *ids[2:]]
    for stream, more, expected in (
        (READ, {}, [ids[1]]),
        ("user/1234/state/com.google/read", {}, [ids[1]]),
        ("user/-/state/com.google/kept-unread", {}, unread),
        (ALL, {"xt": READ}, unread),
        (ALL, {"it": READ}, [ids[1]]),
        (ALL, {"xt": "user/-/state/com.google/unread"}, [ids[1]]),
        (ALL, {"xt": [READ, STARRED]}, [ids[0], *ids[3:]]),
        (STARRED, {}, [ids[1], ids[2]]),
        (STARRED, {"xt": READ}, [ids[2]]),
        (STARRED, {"it": READ}, [ids[1]]),
        (HOME, {}, ids),
        (HOME, {"xt": READ}, unread),
        (HOME, {"it": READ}, [ids[1]]),
        (LATER, {}, []),
        (ALL, {"xt": HOME}, []),
        (feed, {}, ids),
        (feed, {"xt": READ}, unread),
        (f"feed/{FEED}", {}, ids),
        ("feed/https:/blog.example/feed", {}, ids),
        ("feed/other", {}, []),
        ("feed/999", {}, []),
        ("user/-/label/Nothing", {}, []),
        ("user/-/state/com.google/broadcast", {}, []),
        ("nonsense", {}, []),
        (ALL, {"it": READ, "xt": READ}, []),
        (ALL, {"xt": "user/-/label/Nothing", "it": "user/-/state/com.google/fresh"}, ids),
    ):
        for size in (1, 1000):
            assert await app.ids(stream, n=size, **more) == expected, (stream, more)
            assert await app.ids(stream, n=size, r="o", **more) == expected[::-1], (stream, more)
        assert (await app.get("stream/items/count", s=stream)).text == str(len(await app.ids(stream)))


@pytest.mark.parametrize("many", [1, 5000])
async def test_counts(
    server: World, alice: Reader, app: NativeApp, ids: list[str], monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """By the state of items: each counts once, however many channels hold it. Of many items, feeds are asked."""
    monkeypatch.setattr(views, "_MANY", many)
    await alice.post(action="follow", channel="later", url=FEED)
    await mark(alice, ids[0], "mark_read", channel="global")
    feed = (await app.json("subscription/list"))["subscriptions"][0]["id"]
    found = (await app.json("unread-count", all="true"))["unreadcounts"]
    assert {one["id"]: one["count"] for one in found} == dict.fromkeys((ALL, HOME, LATER, feed), 4)
    row = (await app.json("stream/contents", s=ALL, n=1, xt=READ))["items"][0]
    assert {one["newestItemTimestampUsec"] for one in found} == {row["timestampUsec"]}


@pytest.mark.parametrize("prefix", ["feed:", "item:"])
async def test_many_items_count_while_a_master_is_away(
    server: World, app: NativeApp, ids: list[str], monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    """Those of feeds that can't be read now count as of no feed."""
    monkeypatch.setattr(views, "_MANY", 1)
    await app.get("unread-count")
    monkeypatch.setattr(server.items, "_redis", Away(server.redis, prefix))
    found = {one["id"]: one["count"] for one in (await app.json("unread-count", all="true"))["unreadcounts"]}
    assert found[ALL] == found[HOME] == 5
    assert sum(count for name, count in found.items() if name.startswith("feed/")) == 5


class Away:
    """A Redis Cluster without the master of all keys that begin so."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix

    async def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        replies = await self._redis.pipeline(commands)
        gone = [str(command[1]).startswith(self._prefix) for command in commands]
        if not any(gone):
            return replies
        unavailable = StoreUnavailable("away")
        raise StoreIncomplete("away", [unavailable if one else reply for one, reply in zip(gone, replies, strict=True)])


async def test_feeds_of_many_items_are_asked_in_pieces(
    server: World, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those whose feeds have far more posts, too: else one request delays all others."""
    monkeypatch.setattr(views, "_MANY", 2)
    asked: list[int] = []

    async def fields(self: object, some: Sequence[str], names: Sequence[str]) -> list[list[bytes | None]]:
        asked.append(len(some))
        return await inner(self, some, names)

    inner = type(server.items).fields
    monkeypatch.setattr(type(server.items), "fields", fields)
    stored = {str(int(one) - 10**15) for one in ids}
    found = await server.parts.reading.by_feed(stored, [])
    assert {*chain(*found.values())} == stored
    assert asked == [2, 2, 1]


async def test_contents_in_every_form_of_id(app: NativeApp, alice: Reader, ids: list[str]) -> None:
    await mark(alice, ids[0], "mark_read", channel="home")
    await mark(alice, ids[1], "save")
    long = [f"tag:google.com,2005:reader/item/{int(item):016x}" for item in ids]
    assert all(one.startswith("tag:google.com,2005:reader/item/000") for one in long)
    forms = {"i": [long[0], long[1][-16:], ids[2], long[0], "nonsense", "1000999999999999", "null"]}
    reply = (await app.post("stream/items/contents", **forms)).json()
    assert reply["id"] == ALL
    assert isinstance(reply["updated"], int)
    first, second, third = reply["items"]
    assert [one["id"] for one in reply["items"]] == long[:3]
    listed = (await app.json("subscription/list"))["subscriptions"]
    for one in reply["items"]:
        assert one["title"]
        assert isinstance(one["published"], int)
        assert isinstance(one["updated"], int)
        assert isinstance(one["crawlTimeMsec"], str)
        assert isinstance(one["timestampUsec"], str)
        assert one["alternate"] == [{**one["canonical"][0], "type": "text/html"}]
        assert list(one["canonical"][0]) == ["href"]
        assert one["summary"]["content"]
        assert one["origin"]["streamId"] in {feed["id"] for feed in listed}
        assert one["origin"]["title"] == "A blog"
    assert first["categories"] == [ALL, READ, HOME]
    assert second["categories"] == [ALL, STARRED, HOME]
    assert third["categories"] == [ALL, HOME]


async def test_pages_with_contents(app: NativeApp, ids: list[str]) -> None:
    """With and without a stream, by GET and POST; pages are full, and the last one has no continuation."""
    seen: list[str] = []
    more: dict[str, Any] = {}
    while True:
        page = (await app.get("stream/contents", n=2, output="json", **more)).json()
        seen += [str(int(one["id"][-16:], 16)) for one in page["items"]]
        if "continuation" not in page:
            break
        assert len(page["items"]) == 2
        more = {"c": page["continuation"]}
    assert seen == ids
    for reply in (
        await app.get(f"stream/contents/{HOME}", n=5),
        await app.get("stream/contents/user%2F-%2Flabel%2FHome", n=5),
        await app.get(f"stream/contents/feed/{FEED}", n=5),
        await app.post("stream/contents", n=5, s=HOME),
        await app.get("stream/contents", n=5),
    ):
        assert [str(int(one["id"][-16:], 16)) for one in reply.json()["items"]] == ids


async def test_a_stream_as_atom(server: World, app: NativeApp, alice: Reader, ids: list[str]) -> None:
    """As Newsboat before 2.24 reads it: ids for marks, and states as categories of this scheme."""
    await alice.post(action="channels", channel="home", name="read")
    feed = (await app.json("subscription/list"))["subscriptions"][0]["id"]
    await mark(alice, ids[0], "mark_read", channel="home")
    await mark(alice, ids[1], "save")
    url = f"{app.address}/reader/atom/{quote(feed, safe='')}"
    reply = await app.client.get(url, params={"n": 3}, headers=app.headers)
    assert reply.headers["content-type"].startswith("application/atom+xml")
    entries = ElementTree.fromstring(reply.content).findall("{*}entry")
    assert [str(int(one.findtext("{*}id", "")[-16:], 16)) for one in entries] == ids[:3]
    labels = [{one.get("label") for one in entry.findall("{*}category")} for entry in entries]
    assert labels == [{"reading-list", "read"}, {"reading-list", "starred", "fresh"}, {"reading-list", "fresh"}]
    schemes = {one.get("scheme") for entry in entries for one in entry.findall("{*}category")}
    assert schemes == {"http://www.google.com/reader/"}
    parsed = feedparser.parse(reply.content)
    assert not parsed.bozo
    assert [one.title for one in parsed.entries] == ["e", "d", "c"]
    assert (await app.client.get(url)).status_code == 401


async def test_read_posts_of_an_unfollowed_feed_have_a_feed(app: NativeApp, alice: Reader, ids: list[str]) -> None:
    await mark(alice, ids[0], "mark_read", channel="home")
    await mark(alice, ids[1], "save")
    await alice.post(action="unfollow", channel="home", url=FEED)
    left = await app.ids()
    assert left == ids[:2]
    reply = (await app.post("stream/items/contents", i=left)).json()
    listed = {one["id"] for one in (await app.json("subscription/list"))["subscriptions"]}
    assert {one["origin"]["streamId"] for one in reply["items"]} == {"feed/other"} <= listed
    assert await app.ids("feed/other") == left


async def test_notices_and_other_posts_have_feeds(server: World, app: NativeApp, alice: Reader, ids: list[str]) -> None:
    """One for each kind of notice, and one for posts of unfollowed feeds while there are any, in the app's language."""
    await publish_notice(server, alice)
    notices = (await app.json("subscription/list"))["subscriptions"][0]
    assert (notices["title"], notices["categories"]) == ("Feeds", [])
    (notice,) = await app.ids(notices["id"])
    assert notice == (await app.ids())[0]
    assert len((await app.json("subscription/list"))["subscriptions"]) == 2
    await mark(alice, ids[0], "save")
    await alice.post(action="unfollow", channel="home", url=FEED)
    listed = (await app.json("subscription/list"))["subscriptions"]
    assert [(one["id"], one["title"]) for one in listed[1:]] == [("feed/other", "Other posts")]
    assert len({one["url"] for one in listed}) == 2
    url = f"{app.address}/reader/api/0/subscription/list"
    german = (await app.client.get(url, headers={**app.headers, "Accept-Language": "de-AT"})).json()
    assert german["subscriptions"][1]["title"] == "Weitere Beiträge"
    await mark(alice, ids[0], "unsave")
    assert [one["id"] for one in (await app.json("subscription/list"))["subscriptions"]] == [notices["id"]]
    assert await app.ids("feed/other") == []


async def test_other_posts_are_found_at_any_place(server: World, app: NativeApp, alice: Reader, ids: list[str]) -> None:
    """Also by a process that sees the account first, after a later unfollow, and no longer when all have left."""

    async def has_others(app: NativeApp) -> bool:
        return (await app.json("subscription/list"))["subscriptions"][-1]["id"] == "feed/other"

    await server.publish(OTHER, *posts("z", "y", host="other.example"))
    await alice.post(action="follow", channel="later", url=OTHER)
    assert not await has_others(app)
    await mark(alice, (await app.ids(LATER))[0], "mark_read", channel="later")
    await alice.post(action="unfollow", channel="later", url=OTHER)
    assert await has_others(app)
    assert len(await app.ids("feed/other")) == 1
    server.use(changed=lambda: None)
    assert await has_others(app)
    await alice.post(action="follow", channel="home", url=OTHER)
    assert not await has_others(app)
    await alice.post(action="timeline", method="mark_read", channel="global", entry=str(int(ids[0]) - 10**15))
    await alice.post(action="unfollow", channel="home", url=FEED)
    assert await has_others(app)


async def test_other_posts_stay_while_one_is_left(server: World, app: NativeApp, alice: Reader, ids: list[str]) -> None:
    """After one that was found has left, those beside it are found."""
    await server.publish(OTHER, *posts("z", "y", host="other.example"))
    await alice.post(action="follow", channel="later", url=OTHER)
    for one in await app.ids(LATER):
        await mark(alice, one, "mark_read", channel="later")
    await alice.post(action="unfollow", channel="later", url=OTHER)
    server.use(changed=lambda: None)
    found = []
    while (await app.json("subscription/list"))["subscriptions"][-1]["id"] == "feed/other":
        left = await app.ids("feed/other")
        found.append(len(left))
        await mark(alice, left[-1], "remove", channel="later")
    assert found == [2, 1]


async def test_posts_of_a_feed_that_has_moved_belong_to_the_new_one(
    server: World, app: NativeApp, alice: Reader, ids: list[str]
) -> None:
    """Read posts stay from the former feed: they keep the id that apps know, and aren't other posts."""
    (before,) = (await app.json("subscription/list"))["subscriptions"]
    await mark(alice, ids[0], "mark_read", channel="home")
    later = await server.publish("https://new.example/feed", *posts("new", host="new.example"))
    former = await server.feeds.find(FEED)
    assert former
    await server.channels.update_subscription(alice.name, "home", former, new_feed=later.id)
    (listed,) = (await app.json("subscription/list"))["subscriptions"]
    assert listed["id"] == before["id"]
    assert ids[0] in await app.ids(before["id"])
    (item,) = (await app.post("stream/items/contents", i=ids[0])).json()["items"]
    assert item["origin"]["streamId"] == before["id"]


async def test_a_continuation_of_another_stream(app: NativeApp, ids: list[str]) -> None:
    """It would skip posts; `user/-` and `user/1234` are the same stream, and the size of pages may change."""
    asked = {"s": ALL, "xt": [READ, STARRED], "n": 2}
    more = (await app.json("stream/items/ids", **asked))["continuation"]
    again = {"s": "user/1234/state/com.google/reading-list", "xt": [STARRED, READ], "n": 3}
    assert [one["id"] for one in (await app.json("stream/items/ids", **again, c=more))["itemRefs"]] == ids[2:]
    for other in ({"s": HOME}, {"xt": READ}, {"r": "o"}, {"it": STARRED}):
        reply = await app.get("stream/items/ids", 400, **{**asked, **other}, c=more)
        assert "expected a continuation of this stream" in reply.text
    assert re.fullmatch(r"[A-Za-z0-9_-]+", more)


async def test_pages_of_large_posts_end_earlier(
    server: World, app: NativeApp, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And continue where they ended, so that a reply has a bound in memory."""
    monkeypatch.setattr(reads, "MOST_BYTES", 1)
    seen, more = [], dict[str, Any]()
    while True:
        page = (await app.get("stream/contents", n=10_000, **more)).json()
        assert len(page["items"]) == 1
        seen += [str(int(one["id"][-16:], 16)) for one in page["items"]]
        if "continuation" not in page:
            break
        more = {"c": page["continuation"]}
    assert seen == ids


async def test_contents_of_large_named_posts_end_earlier(
    app: NativeApp, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the first ones, so that an app that asks for the rest again gets all of them."""
    monkeypatch.setattr(reads, "MOST_BYTES", 1000)
    missing = ids
    for expected in (ids[:2], ids[2:4], ids[4:]):
        reply = (await app.post("stream/items/contents", i=missing)).json()
        assert [str(int(one["id"][-16:], 16)) for one in reply["items"]] == expected
        assert "continuation" not in reply
        missing = [one for one in missing if one not in expected]


async def test_bad_questions(app: NativeApp, ids: list[str]) -> None:
    """One line of text that names the parameter; too large a number counts as the maximum."""
    for params in ({"ot": "yesterday"}, {"nt": "-1"}, {"c": "x"}, {"n": "many"}, {"c": "9" * 30}):
        (name,) = params
        reply = await app.get("stream/items/ids", 400, **params)
        assert f"'{name}'" in reply.text
        assert reply.text.count("\n") == 1
    assert await app.ids(n=10**9) == ids
    assert await app.ids(ot=0, nt=10**15) == ids
    assert (await app.post("stream/items/contents", i=["x", "y"])).json()["items"] == []


async def test_posts_of_another_user_cannot_be_read(server: World, app: NativeApp, bob: Reader) -> None:
    await server.publish(OTHER, *posts("private", host="other.example"))
    await bob.post(action="follow", channel="home", url=OTHER)
    his = numbered(await bob.ids("home"))
    assert (await app.post("stream/items/contents", i=his)).json()["items"] == []
    assert await app.ids(f"feed/{OTHER}") == []


async def test_ten_thousand_contents_in_one_request(app: NativeApp, ids: list[str]) -> None:
    """In the long form, with as many tokens, as Capy sends them."""
    named = [long_form(str(number)) for number in range(1, 10_001)]
    reply = await app.post("stream/items/contents", i=named, T=["x" * 57] * 10_000)
    assert {one["id"][-16:] for one in reply.json()["items"]} == {f"{int(item):016x}" for item in ids}
    await app.post("stream/items/contents", 400, i=[*named, "1000000000020000"])


async def test_many_large_replies_at_once(server: World, app: NativeApp, alice: Reader) -> None:
    """The contents for one user are made one after another, so that they need the memory of a few."""
    await server.publish(FEED, *posts(*map(str, range(20)), text="x" * 50_000))
    await alice.post(action="follow", channel="home", url=FEED)
    sizes: list[int] = []

    async def ask(url: str) -> None:
        sizes.append(len((await app.client.get(url, headers=app.headers)).content))
        gc.collect()  # replies of the client are cycles

    contents, atom = f"{app.address}/reader/api/0/stream/contents", f"{app.address}/reader/atom/{ALL}"
    tracemalloc.start()
    await asyncio.gather(*(ask(url) for url in [contents, atom] * 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(sizes) == 40
    assert min(sizes) > 1_000_000
    assert peak < 15 * max(sizes), peak


@pytest.mark.parametrize("name", ["stream/items/ids", "stream/items/count", "unread-count", "subscription/list"])
async def test_parallel_requests_of_a_user_take_turns(
    app: NativeApp, ids: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Eight of an account with 200,000 posts left no time for anybody else."""
    begun: list[int] = []
    at_once = 0

    async def slow(self: object, *args: Any) -> Any:
        nonlocal at_once
        at_once += 1
        begun.append(at_once)
        await asyncio.sleep(0.01)
        at_once -= 1
        return await inner(self, *args)

    owner: type = reads.Streams if name.startswith("stream") else reads.NativeContents
    method = "page" if name.startswith("stream") else "followed"
    inner = getattr(owner, method)
    monkeypatch.setattr(owner, method, slow)
    await asyncio.gather(*(app.get(name) for _ in range(8)))
    assert begun == [1] * 8
