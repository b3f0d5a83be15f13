"""Imports from other readers: saved posts and read state, the same after one or several imports."""

from __future__ import annotations

import json
import zipfile
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from microsub.base.errors import InvalidRequest, ParseError
from microsub.posts.imported import Imported
from microsub.redis.protocol import Redis
from microsub.timelines.read_state import ReadState
from microsub.transfer import other_readers
from microsub.transfer.foreign_posts import posts_of_reader
from microsub.transfer.other_readers import BroughtReport, OtherReaders
from tests.support.parsing import PARSER
from tests.support.posts import NOON, candidate
from tests.support.reader import Reader
from tests.support.readers import instance
from tests.support.world import World

DATA = Path(__file__).parents[1] / "data" / "other_readers"
A = "https://a.example/feed"


@pytest.fixture
async def here(real_redis: Redis) -> AsyncIterator[World]:
    async with instance(real_redis) as made:
        yield made


@pytest.fixture
async def ann(here: World) -> Reader:
    """A reader who follows a feed with four posts, all unread but one."""
    ann = await here.reader("ann", "news")
    await here.following.follow("ann", "news", A, NOON - 100)
    await here.publish(A, *(candidate(f"a{n}", at=NOON + n, host="a.example") for n in range(4)))
    return ann


async def bring(
    here: World, kind: str, path: Path, *, dry_run: bool = False, unread_too: bool = False
) -> BroughtReport:
    readers = OtherReaders(here.redis, here.feeds, here.items, Imported(here.redis), here.feed_lists, PARSER)
    return await readers.run(
        "ann", kind, path, here.now, all_saved=kind == "starred", unread_too=unread_too, dry_run=dry_run
    )


async def test_starred_posts_of_google_reader(here: World, ann: Reader) -> None:
    """They are saved with sanitised date, author, text and files; a second import duplicates and restores nothing."""
    dry = await bring(here, "starred", DATA / "takeout.json", dry_run=True)
    assert await ann.items("saved") == []
    for _ in range(2):
        report = await bring(here, "starred", DATA / "takeout.json")
        items = await ann.items("saved")
        assert [item["name"] for item in items] == ["javascript", "A cast", "A rose & more"]
    assert dry.posts.channels[0].read == 3
    assert (report.posts.channels[0].known, report.posts.channels[0].of_no_feed) == (3, 0)
    assert [one.item for one in report.posts.skipped] == ["takeout.json, post 4", "takeout.json, post 5"]
    rose = next(item for item in items if "rose" in item["name"])
    assert rose["url"] == "http://roses.example/1"
    assert rose["published"] == "2013-06-30T11:00:00+00:00"
    assert rose["author"] == {"type": "card", "name": "Rosa", "url": "http://roses.example/"}
    assert rose["content"]["html"] == '<p>Red <a href="http://roses.example/2" rel="noopener noreferrer">roses</a></p>'
    assert rose["category"] == ["gardens"]
    assert rose["_is_read"]
    cast = next(item for item in items if item["name"] == "A cast")
    assert [one["url"] for one in cast["enclosure"]] == ["http://cast.example/2.mp3", "http://cast.example/2.ogg"]
    assert cast["author"]["name"] == "Cast"
    await ann.post(action="timeline", method="unsave", entry=rose["_id"])
    await bring(here, "starred", DATA / "takeout.json")
    assert len(await ann.items("saved")) == 2
    assert (await here.check()).left == ()


async def test_a_starred_post_that_is_here_is_saved_itself(here: World, ann: Reader, tmp_path: Path) -> None:
    """It is found by its link, even if the link is written differently."""
    post = {
        "id": "tag:google.com,2005:reader/item/1",
        "title": "a2",
        "alternate": [{"href": "http://a.example/a2?utm_medium=rss"}],
        "origin": {"streamId": f"feed/{A}"},
    }
    (tmp_path / "starred.json").write_text(json.dumps({"items": [post]}))
    await bring(here, "starred", tmp_path / "starred.json")
    saved = await ann.items("saved")
    assert [item["_id"] for item in saved] == [item["_id"] for item in await ann.items("news") if item["name"] == "a2"]


async def test_entries_of_miniflux(here: World, ann: Reader, tmp_path: Path) -> None:
    """Found by the guid's digest or the link: starred ones are saved, read ones become read, others are counted."""
    text = (DATA / "miniflux.json").read_text("utf-8")
    path = tmp_path / "entries.json"
    path.write_text(text.replace("HASH", sha256(b"https://a.example/a1").hexdigest()))
    await here.feeds.ensure("https://later.example/feed", here.now)
    news = await ann.ids("news")
    await ReadState(here.redis, here.items).mark("ann", "news", news[:2], "read", here.now)
    for _ in range(2):
        report = (await bring(here, "miniflux", path)).posts
        states = {item["name"]: item["_is_read"] for item in await ann.items("news")}
        assert states == {"a3": True, "a2": True, "a1": True, "a0": False}
        assert sorted(await ann.names("saved")) == ["Kept", "a2"]
    assert any("1 post of feeds that haven't been polled yet" in note for note in report.notes)
    await bring(here, "miniflux", path, unread_too=True)
    assert {item["name"] for item in await ann.items("news", is_read="false")} == {"a0", "a2"}


async def test_an_export_of_freshrss(here: World, ann: Reader, tmp_path: Path) -> None:
    """A zip file with a feed list, favourites, and the posts of each feed with their guids."""
    path = tmp_path / "freshrss_ann_2026-01-02_export.zip"
    favourite = _freshrss("1", "https://old.example/feed", "https://old.example/1", "starred", "read")
    labelled = _freshrss("2", "https://old.example/feed", "https://old.example/2", "unread")
    known = _freshrss("3", A, "https://elsewhere.example/x", "read", guid="https://a.example/a0")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("feed_2026-01-02_1_2.json", json.dumps({"id": "feed/2", "items": [known]}))
        archive.writestr("starred_2026-01-02.json", json.dumps({"items": [favourite, labelled]}))
        archive.write(DATA.parent / "opml" / "freshrss.opml", "feeds_2026-01-02.opml.xml")
    dry = await bring(here, "freshrss", path, dry_run=True)
    report = await bring(here, "freshrss", path)
    assert [one.added for one in (dry.lists[0], report.lists[0])] == [2, 2]
    assert "blogs" in await ann.channels()
    assert await ann.names("saved") == ["Post 1"]
    assert {item["name"]: item["_is_read"] for item in await ann.items("news")}["a0"]
    assert "1 post got the read state of the file" in report.posts.notes
    assert "1 post skipped, neither starred there nor stored here" in report.posts.notes


def _freshrss(number: str, feed: str, link: str, *states: str, guid: str | None = None) -> dict[str, Any]:
    return {
        "id": f"tag:google.com,2005:reader/item/{number}",
        "crawlTimeMsec": "1700000000000",
        "published": 1_700_000_000,
        "title": f"Post {number}",
        "canonical": [{"href": link}],
        "alternate": [{"href": link, "type": "text/html"}],
        "categories": ["user/-/state/com.google/reading-list", *(f"user/-/state/com.google/{one}" for one in states)],
        "origin": {"streamId": "feed/7", "htmlUrl": "https://old.example/", "title": "Old", "feedUrl": feed},
        "content": {"content": "<p>Text</p>"},
        "guid": guid or link,
    }


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b'{"items": 7}', b"7", b"PK\x03\x04nothing", b"\x00\x00"])
async def test_invalid_exports_are_refused(here: World, ann: Reader, tmp_path: Path, body: bytes) -> None:
    """The error names the file."""
    path = tmp_path / "file.json"
    path.write_bytes(body)
    with pytest.raises((InvalidRequest, ParseError), match=r"file\.json"):
        await bring(here, "freshrss", path)


async def test_an_endless_archive_is_refused(
    here: World, ann: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size limit applies to all files of the archive together; the number of values in a file is limited, too."""
    monkeypatch.setattr(other_readers, "MOST_BYTES", 10_000)
    monkeypatch.setattr(other_readers, "MOST_VALUES", 1000)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(4):
            archive.writestr(f"../../{number}.json", b'{"items": []}' + b" " * 3000)
    with pytest.raises(InvalidRequest, match="in all its files"):
        await bring(here, "freshrss", path)
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(path.read_bytes().replace(b"../../2.json", b"../../7.json", 1))
    with pytest.raises(InvalidRequest, match=r"2\.json in damaged\.zip can't be read"):
        await bring(here, "freshrss", damaged)
    for number, corrupt in enumerate((b"PK\1\3", b"PK\1\2\0\0\xff")):
        listing = tmp_path / f"listing{number}.zip"
        listing.write_bytes(path.read_bytes().replace(b"PK\1\2", corrupt[:4], 1).replace(b"PK\1\2\x14\3\x14", corrupt))
        with pytest.raises(InvalidRequest, match=rf"listing{number}\.zip can't be read"):
            await bring(here, "freshrss", listing)
    (tmp_path / "large.json").write_bytes(b" " * 10_001)
    with pytest.raises(InvalidRequest, match=r"large\.json is too large"):
        await bring(here, "freshrss", tmp_path / "large.json")
    (tmp_path / "values.json").write_bytes(b"[" + b"[]," * 2000 + b"[]]")
    with pytest.raises(InvalidRequest, match="too many values"):
        await bring(here, "freshrss", tmp_path / "values.json")


@pytest.mark.parametrize(
    "odd",
    [
        {"published": None, "crawlTimeMsec": "9" * 400},
        {"published": {"a": 1}},
        {"enclosure": [{"href": "javascript:x()", "length": "x"}], "canonical": [5, None, {"href": ["x"]}]},
        {"origin": [1], "author": {"a": 1}, "categories": [None, 7]},
    ],
)
def test_odd_values_keep_no_other_post_out(odd: dict[str, Any]) -> None:
    """An invalid value is ignored, or only its post is skipped."""
    good = _freshrss("1", "https://old.example/feed", "https://old.example/1", "starred")
    strange = {**_freshrss("2", "", "https://old.example/2"), **odd}
    found = posts_of_reader(json.dumps([strange, good, 7]).encode())
    assert [one is not None and one.entry.url for one in found[1:]] == ["https://old.example/1", False]
    assert "javascript:" not in repr(found)
