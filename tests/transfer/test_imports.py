"""Import of the older Go server's data: everything once, with its state, and recognised by later polls."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from microsub.base.errors import ConfigError, InvalidRequest
from microsub.model.reader import BUILT_IN
from microsub.posts.imported import Imported
from microsub.redis import keys
from microsub.redis.multiplexer import Multiplexed
from microsub.redis.protocol import Redis
from microsub.transfer.ekster.imports import ChannelImport, Importing, ImportReport, read_old
from microsub.transfer.ekster.store import OldDatabase
from tests.support.old_server import BEGIN, OldServer, post, when
from tests.support.parsing import PARSER
from tests.support.polling import World, world
from tests.support.web import Publisher, publisher

A, B = "http://a.test/feed", "http://b.test/feed"


@pytest.fixture
async def here(real_redis: Redis) -> AsyncIterator[World]:
    async with world(real_redis) as made:
        yield made


@pytest.fixture
async def old(second_redis_url: str) -> AsyncIterator[OldServer]:
    connection = Multiplexed(second_redis_url)
    yield OldServer(connection)
    await connection.aclose()


def importing(here: World, redis: Redis | None = None) -> Importing:
    return Importing(
        here.redis, here.accounts, here.channels, here.feeds, here.items, here.timelines, here.schedule,
        Imported(redis or here.redis), here.effective.of, here.applier, PARSER,
    )  # fmt: skip


async def take_over(here: World, old: OldServer, *, dry_run: bool = False) -> ImportReport:
    return await importing(here).run("ann", old.file(), OldDatabase(old.redis), here.clock(), dry_run=dry_run)


async def shown(here: World, uid: str) -> list[tuple[str, bool]]:
    """Title and read flag of all items of a channel, newest first."""
    rows = await here.timelines.walk("ann", uid)
    data = await here.items.data([row.id for row in rows])
    return [(json.loads(one or b"{}").get("name"), row.is_read) for row, one in zip(rows, data, strict=True)]


def of(report: ImportReport, uid: str) -> ChannelImport:
    return next(one for one in report.channels if one.uid == uid)


async def everything(here: World) -> dict[bytes, Any]:
    """The data of the target, except for times of the import and the data of polls and schedule."""
    found = {}
    async for batch in here.redis.scan():
        for name in batch:
            if re.match(rb"user:.*(posts|unread|channels|feeds)$|feed:.*(guids|items|subscribers|pending)$|ids:", name):
                found[name] = await here.redis.command("DUMP", name)
    return found


async def test_channels_order_feeds_posts_and_state_come_over(here: World, old: OldServer) -> None:
    """Channels in their order, their feeds, and each post with time and state."""
    await old.channel("1001", "News", 2, [A])
    await old.channel("1000", "Friends", 1, [B])
    await old.add("1001", *(post(f"a{n}", n, feed=A) for n in range(30)))
    await old.add("1001", *(post(f"r{n}", 50 + n, feed=A) for n in range(5)), read=True)
    await old.add("1000", post("b1", 3, feed=B))
    before = await old.keys()
    report = await take_over(here, old)
    assert [one.uid for one in await here.channels.list("ann")] == ["notifications", "1000", "1001", "saved"]
    assert [one.name for one in await here.channels.list("ann")][1:] == ["Friends", "News", "Saved"]
    assert await shown(here, "1001") == [
        *((f"Post r{n}", True) for n in reversed(range(5))), *((f"Post a{n}", False) for n in reversed(range(30)))
    ]  # fmt: skip
    assert (of(report, "1001").unread, of(report, "1001").read, report.skipped) == (30, 5, [])
    assert [one.url for one in await here.channels.subscriptions("ann", "1001")] == [A]
    (row,) = await here.timelines.walk("ann", "1000")
    assert float(row.score) == BEGIN + 3 * 3600
    wire = json.loads((await here.items.data([row.id]))[0] or b"")
    assert (wire["published"], wire["content"]["html"]) == ("2020-09-13T15:26:40+00:00", "<p>About <b>b1</b></p>")
    assert await here.schedule.holds([("1", "b.test"), ("2", "a.test")]) == [True, True]
    assert (await here.accounts.user("ann")).me == "https://ann.example/"  # type: ignore[union-attr]
    assert await old.keys() == before


async def test_an_import_creates_no_second_user_for_an_address(here: World, old: OldServer) -> None:
    """A user with another name here is refused, also in a dry run, with that name; nothing is written."""
    await old.channel("1000", "Friends", 1, [A])
    await here.accounts.add_user("first", "http://Ann.example", here.clock())
    for dry_run in (True, False):
        with pytest.raises(InvalidRequest, match="already belongs to the user 'first'"):
            await take_over(here, old, dry_run=dry_run)
    assert [user.name for user in await here.accounts.users()] == ["first"]
    assert await here.feeds.find(A) is None


async def test_a_dry_run_counts_and_writes_nothing(here: World, old: OldServer) -> None:
    """Its numbers are the same as the import's."""
    await old.channel("1000", "Friends", 1, [A])
    await old.add("1000", *(post(f"a{n}", n, feed=A) for n in range(7)), post("own", 9))
    await old.add("1000", post("r", 9, feed=A), read=True)
    report = await take_over(here, old, dry_run=True)
    assert [name async for batch in here.redis.scan() for name in batch] == []
    done = await take_over(here, old)
    assert [(one.unread, one.read, one.of_no_feed) for one in report.channels] == [
        (one.unread, one.read, one.of_no_feed) for one in done.channels
    ]
    assert "would be imported" in report.as_text()
    assert "1000 (Friends): 1 feed, 8 unread, 1 read" in done.as_text()


async def test_repeating_doubles_nothing_and_keeps_what_was_done_here(here: World, old: OldServer) -> None:
    """Posts read or removed here stay so; posts read or added on the old server since then are imported."""
    await old.channel("1000", "Friends", 1, [A])
    await old.add("1000", *(post(f"a{n}", n, feed=A) for n in range(5)))
    await old.add("1000", *(post(f"m{n}", 10 + n, _source={"_id": "micropub:1", "name": "x"}) for n in range(3)))
    await take_over(here, old)
    ids = {name: row.id for (name, _), row in zip(
        await shown(here, "1000"), await here.timelines.walk("ann", "1000"), strict=True
    )}  # fmt: skip
    await here.timelines.mark_read("ann", "1000", [ids["Post a0"], ids["Post m0"]], here.clock())
    await here.timelines.remove("ann", "1000", [ids["Post a1"], ids["Post m1"]], here.clock())
    await here.channels.create("ann", "Mine", here.clock(), "mine")
    await here.channels.order("ann", ["mine", "1000"])
    await old.redis.command("ZREM", "zchannel:1000:posts", "item:" + b"a2".hex())
    await old.redis.command("SADD", "channel:1000:read", "item:" + b"a2".hex())
    await old.add("1000", post("a9", 20, feed=A))
    await take_over(here, old)
    before = await everything(here)
    report = await take_over(here, old)
    assert await everything(here) == before
    assert dict(await shown(here, "1000")) == {
        "Post a9": False, "Post m2": False, "Post m0": True, "Post a4": False, "Post a3": False, "Post a2": True,
        "Post a0": True,
    }  # fmt: skip
    assert of(report, "1000").known == 9
    assert [one.uid for one in await here.channels.list("ann")] == ["notifications", "mine", "1000", "saved"]


@pytest.fixture
async def site() -> AsyncIterator[Publisher]:
    async with publisher() as made:
        yield made


FORMS = {
    "rss with guids": """<rss version='2.0'><channel><title>T</title><link>http://h/</link>{}</channel></rss>
        <item><guid isPermaLink='false'>{guid}</guid><link>{link}</link><title>New {n}</title>
        <pubDate>{date}</pubDate></item>""",
    "rss without guids": """<rss version='2.0'><channel><title>T</title><link>http://h/</link>{}</channel></rss>
        <item><link>{link}</link><title>New {n}</title><pubDate>{date}</pubDate></item>""",
    "atom": """<feed xmlns='http://www.w3.org/2005/Atom'><title>T</title>{}</feed>
        <entry><id>tag:h,2020:{n}</id><link href='{link}'/><title>New {n}</title><updated>{iso}</updated></entry>""",
    "h-feed": """<!doctype html><div class='h-feed'><h1 class='p-name'>T</h1>{}</div>
        <div class='h-entry'><a class='u-url' href='{link}'></a><p class='p-name'>New {n}</p>
        <time class='dt-published' datetime='{iso}'></time></div>""",
}


def document(form: str, base: str, count: int) -> tuple[bytes, list[str]]:
    """A feed with so many posts, and the publisher's identifiers of them."""
    frame, _, entry = FORMS[form].partition("\n")
    entries, guids = [], []
    for n in range(count):
        link = f"{base}/posts/{n}?utm_source=feed"
        date = f"{1 + n:02d} Sep 2020 10:00:00 GMT"
        entries.append(entry.format(guid=f"g-{n}", link=link, n=n, date=date, iso=f"2020-09-{1 + n:02d}T10:00:00Z"))
        guids.append({"rss with guids": f"g-{n}", "atom": f"tag:h,2020:{n}"}.get(form, link))
    return frame.replace("{}", "".join(reversed(entries))).encode(), guids


@pytest.mark.parametrize("sourced", [True, False], ids=["with its source", "without source"])
@pytest.mark.parametrize("form", FORMS)
async def test_the_first_poll_after_the_move_doubles_nothing(
    here: World, old: OldServer, site: Publisher, form: str, sourced: bool
) -> None:
    """Ten of a real feed's twelve posts were known, four of them read; a poll adds the other two, unread."""
    base = site.url("", "blog.test").rstrip("/")
    body, guids = document(form, base, 12)
    kind = "text/html" if form == "h-feed" else "application/xml"
    url = site.serve_document("/feed", body, kind).replace("127.0.0.1", "blog.test")
    await old.channel("1000", "Friends", 1, ["http://elsewhere.test/feed", url])
    known = [
        post(guid, n, feed=url if sourced else None, url=f"{base}/posts/{n}?utm_source=feed", name=f"Old {n}",
             published=f"2020-09-{1 + n:02d}T10:00:00Z")
        for n, guid in enumerate(guids[:10])
    ]  # fmt: skip
    await old.add("1000", *known[4:])
    await old.add("1000", *known[:4], read=True)
    await take_over(here, old)
    assert len(await shown(here, "1000")) == 10
    feed_id = await here.feeds.find(url)
    assert feed_id is not None
    result = await here.poll_id(feed_id)
    assert (result.outcome, result.new) == ("changed", 2), result
    assert await shown(here, "1000") == [(f"New {n}", n < 4) for n in reversed(range(12))]
    await here.feeds.update(feed_id, {"body_hash": None, "etag": None})
    assert (await here.poll_id(feed_id)).new == 0
    await take_over(here, old)
    assert await shown(here, "1000") == [(f"New {n}", n < 4) for n in reversed(range(12))]


async def test_a_feed_that_others_follow_gives_its_posts_once(here: World, old: OldServer, site: Publisher) -> None:
    """If the feed is known here, its stored posts are used; other followers get no old posts as new."""
    base = site.url("", "blog.test").rstrip("/")
    body, guids = document("rss with guids", base, 12)
    url = site.serve_document("/feed", body).replace("127.0.0.1", "blog.test")
    feed = await here.follow(url, "bob", "home")
    await here.poll(feed)
    await old.channel("1000", "Friends", 1, [url])
    await old.add("1000", *(post(guid, n, feed=url) for n, guid in enumerate([*guids, "long ago"])))
    await take_over(here, old)
    await here.stages.run_once()
    assert len(await shown(here, "1000")) == 13
    assert len(await here.rows("bob", "home")) == 12
    assert not any(is_read for _, is_read in await shown(here, "1000"))
    assert sorted(name for name, _ in await shown(here, "1000")) == sorted(
        [f"New {n}" for n in range(12)] + ["Post long ago"]
    )


async def test_damaged_items_are_named_and_left_out(here: World, old: OldServer) -> None:
    """Broken JSON, no JSON, no item, nothing to read: all others are imported."""
    await old.channel("1000", "Friends", 1, [A])
    await old.add("1000", *(post(f"a{n}", n, feed=A) for n in range(6)))
    await old.redis.command("HSET", "item:" + b"a0".hex(), "Data", "{broken")
    await old.redis.command("HDEL", "item:" + b"a1".hex(), "Data")
    await old.redis.command("HSET", "item:" + b"a2".hex(), "Data", "[1]")
    await old.redis.command("HSET", "item:" + b"a3".hex(), "Data", '{"type":"entry"}')
    await old.redis.command("SADD", "channel:1000:read", "item:ffff", "item:" + b"lost".hex())
    await old.redis.command("SET", "item:" + b"text".hex(), "x")
    await old.redis.command("ZADD", "zchannel:1000:posts", 5, "item:" + b"text".hex())
    report = await take_over(here, old)
    assert {bytes.fromhex(one.item) for one in report.skipped} == {
        b"a0", b"a1", b"a2", b"a3", b"\xff\xff", b"lost", b"text"
    }  # fmt: skip
    assert all(one.why for one in report.skipped)
    assert [name for name, _ in await shown(here, "1000")] == ["Post a5", "Post a4"]
    assert "skipped 1000:" in report.as_text()


async def test_undated_posts_come_with_the_time_of_the_import(here: World, old: OldServer) -> None:
    """As after a poll; a date that only the timeline or the hash has is used."""
    await old.channel("1000", "Friends", 1, [A])
    zero = "0001-01-01T00:00:00Z"
    await old.add("1000", post("a", feed=A, published=zero), read=True)
    await old.add("1000", post("b", 5, feed=A))
    await old.redis.command("HSET", "item:" + b"b".hex(), "Data", json.dumps(post("b", feed=A, published=None)))
    report = await take_over(here, old)
    assert of(report, "1000").undated == 1
    rows = await here.timelines.walk("ann", "1000")
    assert [name for name, _ in await shown(here, "1000")] == ["Post a", "Post b"]
    assert float(rows[0].score) == pytest.approx(here.clock(), abs=60)
    assert float(rows[1].score) == BEGIN + 5 * 3600


async def test_undated_posts_have_their_places(here: World, old: OldServer) -> None:
    """Whatever their number and Redis' order: at the top, in the order of ids, read or not, with a feed or without.
    A second import keeps the order.
    """
    await old.channel("1000", "Friends", 1, [A])
    names = [f"{n:03d}" for n in range(700)]
    undated = {name: post(name, feed=A if int(name) % 2 else None, published=None) for name in names}
    for name, one in undated.items():
        one["_source"] = {"_id": "micropub:1", "name": "x"} if int(name) % 2 else one.get("_source")
        undated[name] = {key: value for key, value in one.items() if value is not None}
    await old.add("1000", *undated.values(), read=True)
    await old.add("1000", post("dated", 5, feed=A))
    await take_over(here, old)
    expected = [f"Post {name}" for name in names]
    assert [name for name, _ in await shown(here, "1000")] == [*expected, "Post dated"]
    here.clock.advance(3600)
    await take_over(here, old)
    assert [name for name, _ in await shown(here, "1000")] == [*expected, "Post dated"]


async def test_two_posts_of_one_guid(here: World, old: OldServer, site: Publisher) -> None:
    """For a feed they are one post, although their ids differ; after imports and polls they are still one, and read."""
    url = site.serve_document(
        "/feed",
        b"""<rss version='2.0'><channel><title>T</title><link>http://h/</link>
        <item><guid>https://blog.test/1</guid><title>New</title></item></channel></rss>""",
    ).replace("127.0.0.1", "blog.test")
    await old.channel("1000", "Friends", 1, [url])
    await old.add("1000", post("https://blog.test/1", 2, feed=url, name="Two"))
    await old.add("1000", post("http://blog.test/1", 1, feed=url, name="One"), read=True)
    for _ in range(3):
        await take_over(here, old)
        assert [is_read for _, is_read in await shown(here, "1000")] == [True]
        await here.poll_id(await here.feeds.find(url) or "")
        assert [is_read for _, is_read in await shown(here, "1000")] == [True]


async def test_a_document_with_two_posts_of_one_guid(here: World, old: OldServer, site: Publisher) -> None:
    """The older server kept only the last of them; the first poll adds the others, without duplicates."""
    items = "".join(
        "<item><guid isPermaLink='false'>http://blog.test/</guid>"
        f"<link>http://blog.test/{n}</link><title>Post {n}</title></item>"
        for n in range(2)
    )
    body = f"<rss version='2.0'><channel><title>T</title><link>http://h/</link>{items}</channel></rss>".encode()
    url = site.serve_document("/feed", body).replace("127.0.0.1", "blog.test")
    await old.channel("1000", "Friends", 1, [url])
    await old.add("1000", post("http://blog.test/", 1, feed=url, name="Post 1", url="http://blog.test/1"), read=True)
    for _ in range(3):
        await take_over(here, old)
        await here.poll_id(await here.feeds.find(url) or "")
    assert sorted(await shown(here, "1000")) == [("Post 0", False), ("Post 1", True)]


async def test_a_stream_of_notifications_comes_over(here: World, old: OldServer) -> None:
    """Its items have neither an id nor a feed."""
    for n in range(3):
        data = json.dumps(post("x", n, _id=None, name=f"Error {n}", url=None))
        await old.redis.command(
            "XADD", "stream:notifications", "*", "ID", "", "Published", when(n), "Read", 0, "Data", data
        )
    for _ in range(2):
        await take_over(here, old)
        assert await shown(here, "notifications") == [(f"Error {n}", False) for n in (2, 1, 0)]


async def test_a_post_in_two_channels_is_one_item(here: World, old: OldServer) -> None:
    """A filter had put it into another channel, which doesn't follow the feed; posts without feed behave the same."""
    await old.channel("1000", "Friends", 1, [A])
    await old.channel("1001", "Filtered", 2)
    for uid in ("1000", "1001"):
        await old.add(uid, post("a", 1, feed=A), post("own", 2, _source={"_id": "micropub:1", "name": "x"}))
    await take_over(here, old)
    rows = [[row.id for row in await here.timelines.walk("ann", uid)] for uid in ("1000", "1001")]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 2


class _Killed(Exception):
    """The process ends here."""


class _Dying:
    """A connection that ends the process before its nth round trip."""

    def __init__(self, redis: Redis, at: int) -> None:
        self._redis = redis
        self._left = at

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._redis, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise _Killed
            return method(*args, **kwargs)

        return counted if name in {"command", "pipeline", "script", "scripts"} else method


async def test_killed_anywhere_and_run_again_it_ends_the_same(here: World, old: OldServer) -> None:
    """It is killed before every round trip once; in the end the target is the same as after one undisturbed run."""
    await old.channel("1000", "Friends", 1, [A])
    await old.channel("1001", "News", 0, [B])
    await old.add(
        "1000", *(post(f"a{n}", n, feed=A) for n in range(14)), post("own", 8.5, _source={"_id": "micropub:1"})
    )
    await old.add("1000", post("r", 20, feed=A), post("own r", 21, _source={"_id": "micropub:1"}), read=True)
    await old.add("1001", post("b", 3, feed=B))
    at = 0
    while True:
        await here.redis.command("FLUSHDB")
        async with world(_Dying(here.redis, at)) as dying:  # type: ignore[arg-type]
            try:
                await importing(dying).run("ann", old.file(), OldDatabase(old.redis), here.clock())
            except _Killed:
                pass
            else:
                break
        await take_over(here, old)
        assert await shown(here, "1000") == [
            ("Post own r", True), ("Post r", True), *((f"Post a{n}", False) for n in (13, 12, 11, 10)),
            ("Post a9", False), ("Post own", False), *((f"Post a{n}", False) for n in range(8, -1, -1)),
        ], at  # fmt: skip
        assert await shown(here, "1001") == [("Post b", False)]
        assert [one.uid for one in await here.channels.list("ann")] == ["notifications", "1001", "1000", "saved"]
        assert len(await here.redis.command("HGETALL", keys.feed_guids("1"))) <= 30
        at += 1
    assert at > 40


async def test_a_large_database_comes_over_whole(here: World, old: OldServer) -> None:
    """More than a thousand posts in several channels; the check finds nothing wrong afterwards."""
    for channel in range(4):
        feeds = [f"http://f{channel}-{n}.test/feed" for n in range(5)]
        await old.channel(f"100{channel}", f"Channel {channel}", channel, feeds)
        await old.add(f"100{channel}", *(post(f"{channel} {n}", n, feed=feeds[n % 5]) for n in range(200)))
        await old.add(f"100{channel}", *(post(f"{channel} r {n}", n, feed=feeds[n % 5]) for n in range(100)), read=True)
    report = await take_over(here, old)
    assert sum(one.unread for one in report.channels) == 800
    assert sum(one.read for one in report.channels) == 400
    for channel in await here.channels.list("ann"):
        assert channel.unread == (200 if channel.uid not in BUILT_IN else 0)
        assert len(await shown(here, channel.uid)) == (300 if channel.uid not in BUILT_IN else 0)
    here.clock.advance(1000)
    found = await here.check()
    assert found.left == (), found.as_text()


def test_only_the_old_file_is_taken() -> None:
    """A file in the current format gets its own error, and a broken one is named."""
    with pytest.raises(ConfigError, match="the current form"):
        read_old(b'{"users": {"ann": {}}}', "new.json", {})
    with pytest.raises(ConfigError):
        read_old(b"{", "broken.json", {})


async def test_a_database_with_nothing_of_ekster_is_refused(here: World, old: OldServer) -> None:
    """An empty one, or one of another program; a channel or an item of one of the file's channels is enough."""
    await old.channel("1", "Home", 1)
    await old.redis.command("FLUSHDB")
    await old.redis.command("SET", "item:1", "of another program")
    before = await everything(here)
    for dry_run in (True, False):
        with pytest.raises(InvalidRequest, match="nothing of ekster is in that Redis"):
            await take_over(here, old, dry_run=dry_run)
    assert await everything(here) == before
    await old.redis.command("SADD", "channel:1:read", "item:x")
    assert (await take_over(here, old)).channels
