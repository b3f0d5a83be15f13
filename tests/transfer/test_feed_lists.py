"""Import and export of feed lists."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from microsub.base.errors import InvalidRequest, ParseError
from microsub.base.urls import canonical_feed_url
from microsub.configuration.model import Quotas
from microsub.feeds import record
from microsub.model.settings import Filters, OwnChannelSettings
from microsub.redis.protocol import Redis
from microsub.timelines import ChannelDisplays
from microsub.transfer import feed_lists
from microsub.transfer.feed_lists import MANY, FeedLists
from tests.support import examples
from tests.support.readers import instance
from tests.support.redis_wrappers import CountingRedis
from tests.support.world import World

DOCUMENTS = sorted((Path(__file__).parents[1] / "data" / "opml").glob("*.opml"))


@pytest.fixture
async def here(real_redis: Redis) -> AsyncIterator[World]:
    async with instance(real_redis) as made:
        await made.accounts.add_user("ann", "https://ann.example/", made.now)
        yield made


async def shown(here: World, user: str = "ann") -> dict[str, list[list[str | None]]]:
    """Channels by name, with the URLs and own names of their follows, in order."""
    everywhere = await here.channels.all_subscriptions(user)
    return {
        channel.name: [[one.url, one.name] for one in everywhere[channel.uid]]
        for channel in await here.channels.list(user)
        if channel.uid not in {"notifications", "saved"}
    }


def opml(*outlines: str) -> bytes:
    return "\n".join(["<opml version='2.0'><body>", *outlines, "</body></opml>"]).encode()


def feed(number: int) -> str:
    return f"<outline text='Feed {number}' xmlUrl='https://f{number}.example/feed'/>"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
async def test_lists_as_readers_export_them(here: World, document: Path) -> None:
    """All feeds keep their folders and order. A dry run reports the same; a second import changes nothing."""
    expected = json.loads(document.with_suffix(".json").read_text("utf-8"))
    body = document.read_bytes()
    dry = await here.feed_lists.import_list("ann", body, here.now, dry_run=True)
    assert await shown(here) == {}
    report = await here.feed_lists.import_list("ann", body, here.now)
    assert dry.as_dict() == {**report.as_dict(), "dry_run": True}
    assert await shown(here) == expected["channels"]
    assert [one.line for one in report.problems] == expected["problems"]
    assert report.added == sum(map(len, expected["channels"].values()))
    again = await here.feed_lists.import_list("ann", body, here.now)
    assert (again.added, again.existing, await shown(here)) == (0, report.added, expected["channels"])
    assert [one.line for one in again.problems] == expected["problems"]
    assert here.web.asked == []
    due = await here.redis.command("ZCARD", "{hosts}:due")
    assert due == len({one[0].split("/")[2] for feeds in expected["channels"].values() for one in feeds})


async def test_a_first_list_of_many_feeds_shows_titles(here: World) -> None:
    """A choice of the user stays, and so do the views of a user who has followed something before."""
    for user, before, count, view in (
        ("ann", 0, MANY + 1, "list"),
        ("beth", 0, MANY, "full"),
        ("carol", 1, MANY + 1, "full"),
    ):
        await here.accounts.add_user(user, "", here.now)
        displays = ChannelDisplays(here.redis)
        for number in (before, count):
            await here.feed_lists.import_list(user, opml(*map(feed, range(number))), here.now)
        assert (await displays.of(user, "home")).view == view
    await here.accounts.add_user("dora", "", here.now)
    await displays.choose("dora", "global", {"view": "cards"}, frozenset({"global"}))
    await here.feed_lists.import_list("dora", opml(*map(feed, range(MANY + 1))), here.now)
    assert (await displays.of("dora", "home")).view == "cards"


async def test_a_list_is_merged_by_the_names_of_channels(here: World) -> None:
    """A channel with the folder's name receives the feeds; its settings and follows stay as they are."""
    await here.channels.create("ann", "News", here.now, "n1")
    await here.following.follow("ann", "n1", "https://f1.example/feed", here.now, "Mine")
    own = OwnChannelSettings(max_items=7)
    await here.channels.set_settings("ann", "n1", own, here.now)
    await here.feed_lists.import_list("ann", opml("<outline text='News'>", feed(1), feed(2), "</outline>"), here.now)
    assert await shown(here) == {"News": [["https://f1.example/feed", "Mine"], ["https://f2.example/feed", "Feed 2"]]}
    assert (await here.channels.get("ann", "n1")).settings == own


async def test_names_that_no_channel_can_have_are_adapted(here: World) -> None:
    """Long names are cut between letters, with a note in the report; joiners stay."""
    long, family = "x" * 198 + "👩‍👩‍👧", "👩‍👩‍👧 خانه‌ها"
    body = opml(f"<outline text='{long}'/>", f"<outline text='{family}'/>", "<outline text='a&#x202e;b'/>")
    report = await here.feed_lists.import_list("ann", body, here.now)
    assert list(await shown(here)) == ["x" * 198 + "…", family, "ab"]
    assert [one.line for one in report.problems] == [2, 4]


async def test_a_folder_is_never_the_channel_of_saved_posts(here: World) -> None:
    """That channel can't follow feeds, so the folder gets another channel."""
    for _ in range(2):
        report = await here.feed_lists.import_list(
            "ann", opml("<outline text='Saved'>", feed(1), "</outline>"), here.now
        )
        assert [(one.uid, one.name) for one in report.channels] == [("saved-feeds", "Saved (feeds)")]
    assert report.existing == 1


async def test_a_truncated_list_changes_nothing(here: World) -> None:
    """A truncated list is refused as a whole, including its channels."""
    with pytest.raises(ParseError):
        await here.feed_lists.import_list("ann", opml("<outline text='News'>", feed(1))[:-20], here.now)
    assert await shown(here) == {}


async def test_quotas_hold_and_what_exceeds_is_named(here: World) -> None:
    """A dry run reports the same. Without quotas, as for imports by the admin, there is no limit."""
    body = opml(
        *("<outline text='A'>", feed(1), feed(2), "</outline>", "<outline text='B'>", feed(3), feed(4), "</outline>"),
        *("<outline text='C'>", feed(5), "</outline>"),
    )
    quotas = Quotas(channels=2, feeds=3)
    dry = await here.feed_lists.import_list("ann", body, here.now, quotas=quotas, dry_run=True)
    report = await here.feed_lists.import_list("ann", body, here.now, quotas=quotas)
    assert {**report.as_dict(), "dry_run": True} == dry.as_dict()
    assert {name: len(feeds) for name, feeds in (await shown(here)).items()} == {"A": 2, "B": 1}
    assert [(one.line, "limit" in one.why) for one in report.problems] == [(8, True), (10, True), (11, False)]
    assert (await here.feed_lists.import_list("ann", body, here.now)).added == 2


async def test_a_list_of_five_thousand_feeds_has_room_in_a_day(here: World) -> None:
    """A user with more than 5,000 other new follows on that day can import the rest on the next day."""
    body, quotas = opml(*map(feed, range(5000))), Quotas()
    report = await here.feed_lists.import_list("ann", body, here.now, quotas=quotas, dry_run=True)
    assert (report.added, report.problems) == (5000, [])
    await here.channels.followed_on("ann", here.now, 5001)
    report = await here.feed_lists.import_list("ann", body, here.now, quotas=quotas, dry_run=True)
    assert report.added == 4999
    assert [one.why for one in report.problems] == ["the limit for new follows in a day is reached: 10000 of 10000"]


async def test_an_import_that_broke_off_is_finished_by_repeating_it(here: World, monkeypatch: Any) -> None:
    """Existing follows are kept, and the rest is added."""
    body, follow = opml(*map(feed, range(100))), here.following.follow
    done: list[str] = []

    async def failing(user: str, uid: str, url: str, *args: Any, **more: Any) -> Any:
        if len(done) > 40:
            raise ConnectionError
        done.append(url)
        return await follow(user, uid, url, *args, **more)

    monkeypatch.setattr(here.following, "follow", failing)
    with pytest.raises(ConnectionError):
        await here.feed_lists.import_list("ann", body, here.now)
    monkeypatch.undo()
    report = await here.feed_lists.import_list("ann", body, here.now)
    assert (report.added + report.existing, report.problems) == (100, [])
    assert len((await shown(here))["Home"]) == 100


# --- export → import is the identity --------------------------------------------------------------------------------

words = st.text(min_size=1, max_size=40).map(lambda text: " ".join(text.split())).filter(bool)
own_settings = st.builds(
    OwnChannelSettings,
    keep_read_days=st.none() | st.floats(0, 36500).map(lambda days: round(days, 3)),
    max_items=st.none() | st.integers(0, 10_000_000),
    unread=st.sampled_from([None, "count", "boolean", "none"]),
    filters=st.builds(
        Filters,
        include_words=st.lists(words.filter(lambda word: word.isprintable()), max_size=3).map(tuple),
        exclude_types=st.lists(st.sampled_from(["like", "repost"]), max_size=2).map(tuple),
        exclude_regex=st.sampled_from([None, "a<b|\"c'", r"\d+ & ü"]),
    ),
)
addresses = st.from_regex(r"https?://[a-z]{1,8}\.example/[a-zA-Z0-9/&=?;%~'()!*.-]{0,30}", fullmatch=True)
channels = st.lists(
    st.tuples(
        words, own_settings, st.dictionaries(addresses, st.none() | st.text(min_size=1, max_size=30), max_size=4)
    ),
    max_size=4,
)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(made=[("tt-rss-prefs", OwnChannelSettings(), {})])  # the name of a settings folder in lists of Tiny Tiny RSS
@given(made=channels)
async def test_export_then_import_is_the_identity(real_redis: Redis, made: list[Any]) -> None:
    """For an empty account and the exported one: channels, their order, uids, names, settings, feeds and own names."""
    await real_redis.command("FLUSHDB")
    async with instance(real_redis) as here:
        for user in ("ann", "bob"):
            await here.accounts.add_user(user, f"https://{user}.example/", here.now)
        for number, (name, own, feeds) in enumerate(made):
            uid = f"c{number}"
            await here.channels.create("ann", name, here.now, uid)
            await here.channels.set_settings("ann", uid, own, here.now)
            for place, (url, title) in enumerate(feeds.items()):
                await here.following.follow("ann", uid, url, here.now + place, title)
        body = await here.feed_lists.export("ann", here.now, masked=False)
        for user in ("bob", "ann"):
            report = await here.feed_lists.import_list(user, body, here.now)
            assert report.problems == []
        assert await everything(here, "bob") == await everything(here, "ann")
        assert await here.feed_lists.export("bob", here.now, masked=False) == body.replace(b"of ann<", b"of bob<")


async def test_settings_that_no_channel_may_have_are_left_out(here: World) -> None:
    """They are named, and their channel is imported without them. A feed that is listed twice is followed once."""
    await here.channels.create("ann", "News", here.now, "n1")
    await here.channels.set_settings("ann", "n1", OwnChannelSettings(max_items=7), here.now)
    await here.accounts.add_user("bob", "https://bob.example/", here.now)
    body = (await here.feed_lists.export("ann", here.now, masked=False)).replace(b'"7"', b'"-7"')
    body = body.replace(b"</body>", "".join(opml(feed(1), feed(1)).decode().splitlines()[1:3]).encode() + b"</body>")
    report = await here.feed_lists.import_list("bob", body, here.now)
    why = [one.why for one in report.problems]
    assert "its settings are invalid and were left out: max_items" in why[0]
    assert "the same feed as in line" in why[1]
    assert (await here.channels.get("bob", "n1")).settings == OwnChannelSettings()
    assert "1 feed followed for bob" in report.as_text()


async def everything(here: World, user: str) -> list[Any]:
    everywhere = await here.channels.all_subscriptions(user)
    return [(one, [(sub.url, sub.name) for sub in everywhere[one.uid]]) for one in await here.channels.list(user)]


async def test_a_list_of_thousands_of_feeds_gives_others_their_turn(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list may have 50,000 feeds, and each takes 0.02 ms to decide."""
    done = most = 0

    def counted(url: str) -> str:
        nonlocal done
        done += threading.current_thread() is threading.main_thread()
        return canonical_feed_url(url)

    async def other() -> None:
        nonlocal done, most
        while True:
            done, most = 0, max(most, done)
            await asyncio.sleep(0)

    monkeypatch.setattr(feed_lists, "canonical_feed_url", counted)
    monkeypatch.setattr(record, "canonical_feed_url", counted)
    task = asyncio.create_task(other())
    report = await here.feed_lists.import_list("ann", opml(*map(feed, range(5000))), here.now, dry_run=True)
    task.cancel()
    assert report.added == 5000
    assert most <= 1000


async def test_hosts_in_unicode_are_parsed_in_a_thread(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes up to 2 ms: 5,000 of them blocked the server for 7 seconds."""

    def counted(url: str) -> str:
        assert threading.current_thread() is not threading.main_thread() or url.isascii()
        return canonical_feed_url(url)

    monkeypatch.setattr(feed_lists, "canonical_feed_url", counted)
    monkeypatch.setattr(record, "canonical_feed_url", counted)
    hosts = [f"<outline text='{n}' xmlUrl='https://bücher{n}.example/feed'/>" for n in range(1001)]
    report = await here.feed_lists.import_list("ann", opml(*hosts[:1000]), here.now, dry_run=True)
    assert (report.added, report.problems) == (1000, [])
    with pytest.raises(InvalidRequest, match="names 1001 hosts with non-ASCII names, expected at most 1000"):
        await here.feed_lists.import_list("ann", opml(*hosts), here.now, dry_run=True)
    assert await shown(here) == {}


async def test_ten_thousand_feeds_come_in_without_a_request(real_redis: Redis) -> None:
    """No publisher is asked, and the number of Redis round trips per feed is bounded."""
    asked = 0

    def count(_reader: object, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.close()

    publisher = await asyncio.start_server(count, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{publisher.sockets[0].getsockname()[1]}"
    redis = CountingRedis(real_redis)
    async with instance(redis) as here:
        await here.accounts.add_user("ann", "https://ann.example/", here.now)
        lists = FeedLists(
            here.channels, here.feeds, here.following, here.parser, ChannelDisplays(redis), [ip_network("127.0.0.0/8")]
        )
        outlines = (
            f"<outline text='{start}'>"
            + "".join(f"<outline text='{n}' xmlUrl='{address}/{n}'/>" for n in range(start, start + 500))
            + "</outline>"
            for start in range(0, 10_000, 500)
        )
        before = redis.trips
        report = await lists.import_list("ann", opml(*outlines), here.now)
        assert (report.added, report.problems) == (10_000, [])
        assert (redis.trips - before) / 10_000 < 20
        assert here.web.asked == []
    publisher.close()
    assert asked == 0
