"""The reading pages, by HTTP: content, order, and links."""

from __future__ import annotations

import asyncio
import gzip
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from microsub.base.errors import SearchUnavailable, StoreFull
from microsub.configuration.model import InstanceSettings, Quotas
from microsub.model.jf2 import (
    Card,
    Content,
    Enclosure,
    Entry,
    Participant,
    Podcast,
    PodcastChapter,
    Review,
    Support,
    Transcript,
)
from microsub.model.reader import PageQuery
from microsub.reader.reading.posts import PostForms, PostView
from microsub.redis import keys
from microsub.server.app import create_app
from microsub.timelines import feed_names, pages
from tests.reader.conftest import ADDRESS, ReadingVisitor, ids, reading, titles
from tests.support.posts import NOON
from tests.support.readers import FEED, OTHER, posts
from tests.support.redis_wrappers import Between, CountingRedis
from tests.support.threads import HeldWork
from tests.support.visitor import Visitor, fields_of
from tests.support.world import World


async def test_strangers_see_a_first_page(ann: ReadingVisitor) -> None:
    """It has the purpose of the server, and links to the sign-in and to apps; other pages redirect there and back."""
    stranger = Visitor(ann.server.app, ann.browser.address)
    first = await stranger.get("/")
    assert first.title == "Read the sites that you follow"
    links = [node.attributes.get("href") for node in first.tree.css("main a")]
    assert links == ["/sign-in?next=/", "/connect"]
    assert "endpoint" not in first.text
    assert (await stranger.get("/channel/home?show=all")).location == "/sign-in?next=%2Fchannel%2Fhome%3Fshow%3Dall"


async def test_the_404_page_keeps_the_session(ann: ReadingVisitor) -> None:
    """The error page has a link back to the user's own pages."""
    page = await ann.get("/nothing", accept="text/html")
    assert (page.status, page.title) == (404, "Page not found")
    assert "Sign in" not in page.text


async def test_the_first_page_shows_what_is_unread(ann: ReadingVisitor) -> None:
    """Of all channels, newest first, next to the list of channels with their counts."""
    await ann.publish("b", "a")
    page = await ann.get("/")
    assert titles(page) == ["b", "a"]
    assert page.title == "All"
    links = {" ".join(node.text().split()): node.attributes["href"] for node in page.tree.css(".channels li a")}
    assert links["All 2 unread"] == "/channel/global"
    assert links["Home 2 unread"] == "/channel/home"
    assert "/saved" in links.values()


async def test_posts_that_were_read_last_are_listed(ann: ReadingVisitor) -> None:
    """That first, however old they are. Not those that arrived as read, were marked together, or are unread again."""
    await ann.publish(*(f"p{number}" for number in range(12)))
    assert [len(await ann.titles(f"/channel/home?show={show}")) for show in ("unread", "all")] == [10, 12]
    assert "No post was read lately." in (await ann.get("/read")).text
    page = await ann.get("/channel/home")
    place = dict(zip(titles(page), ids(page), strict=True))
    for name in ("p4", "p7", "p1"):
        ann.server.now += 1
        await ann.change(page, "save", place[name])
        await ann.change(page, "read", place[name])
    last = await ann.get("/read")
    assert (last.title, titles(last)) == ("Recently read", ["p1", "p7", "p4"])
    assert len(last.tree.css(".post[data-in=home]")) == 3, "not Saved"
    assert not last.tree.css("#feed[data-announces], .views [data-show], button[data-act=all]")
    for uid in ("other", "third"):  # four of each, but all in one second
        await ann.server.channels.create("ann", uid, ann.server.now, uid)
        await ann.server.following.follow("ann", uid, f"https://{uid}.example/", ann.server.now)
        await ann.publish(*(f"{uid}{number}" for number in range(4)), feed=f"https://{uid}.example/")
    ann.server.now += 1
    await ann.mark_all(page)
    for uid in ("other", "third"):
        await ann.mark_all(await ann.get(f"/channel/{uid}"))
    assert await ann.titles("/read") == ["p1", "p7", "p4"]
    back = await ann.change(last, "unread", place["p7"])
    assert back.location.startswith("/read")
    assert await ann.titles("/read") == ["p1", "p4"]


async def test_an_empty_page_says_what_is_missing(ann: ReadingVisitor) -> None:
    """Either posts of the followed feeds, or feeds: then there is a field to search for some."""
    assert "No posts yet." in (await ann.get("/channel/home")).text
    assert "mentions of your pages" in (await ann.get("/channel/notifications")).text
    await ann.reader.post(action="unfollow", channel="home", url=FEED)
    page = await ann.get("/channel/global")
    assert "You don’t follow any feeds yet." in page.text
    assert page.tree.css_first("form[action='/follow'] input[name=q]") is not None


async def test_every_place_has_an_address(ann: ReadingVisitor) -> None:
    """Following "older" visits each post once, "newer" leads back; the page doesn't change while posts come."""
    names = [f"p{number:02}" for number in range(45, 0, -1)]
    await ann.publish(*names)
    seen, path, places = [], "/channel/home?show=all", []
    while path:
        page = await ann.get(path)
        places.append(path)
        seen += titles(page)
        await ann.publish(f"new-{len(seen)}", at=NOON + 1000 + len(seen))
        link = page.tree.css_first("[rel=next]")
        path = (link.attributes["href"] or "") if link is not None else ""
    assert seen == names
    assert len(places) == 3
    page = await ann.get(places[1])
    assert titles(page) == names[20:40]
    newer = await ann.get(page.tree.css_first("[rel=prev]").attributes["href"] or "")
    assert titles(newer) == names[:20]


@pytest.mark.parametrize(
    ("path", "current"),
    [
        ("/", ["Channels"]),
        ("/channel/global", ["Unread"]),
        ("/channel/global?show=all", []),
        ("/saved", ["Saved"]),
        ("/read", []),
        ("/channel/home", []),
        ("/feed/{feed}", []),
        ("/feed/{feed}?show=unread", []),
        ("/feed/{feed}?channel=saved", []),
        ("/follow", ["Follow"]),
    ],
)
async def test_the_bar_of_phones_names_the_open_page(ann: ReadingVisitor, path: str, current: list[str]) -> None:
    """And no other one."""
    await ann.publish("a post")
    page = await ann.get("/channel/home")
    await ann.change(page, "save", ids(page)[0])
    (feed,) = await ann.server.channels.followed_feeds("ann")
    page = await ann.get(path.format(feed=feed))
    assert [one.text() for one in page.tree.css(".bottom [aria-current]")] == current


async def test_a_list_is_painted_with_its_whole_heading(ann: ReadingVisitor) -> None:
    """On a slow machine, browsers paint between two parts of it otherwise, and those at its end move.

    Only where a script can end the wait: a connection that stalls would leave the page blank.
    """
    await ann.publish("a post")
    for path in ("/", "/channel/global?show=all", "/saved"):
        page = await ann.get(path)
        link = page.tree.css_first("head [rel=expect][blocking=render]").attributes
        expected = link["href"] or ""
        assert link["media"] == "(scripting: enabled)"
        assert page.tree.css_first(f".heading ~ * {expected}") is not None
        assert page.tree.css_first(f"{expected} ~ *, .notes:has({expected}) ~ *") is not None, "it ends soon"


async def onward(ann: ReadingVisitor, path: str | None) -> str:
    """The link at the end of a list by which reading goes on."""
    return " ".join((await ann.get(path or "")).tree.css_first(".onward").text().split())


async def test_one_source(ann: ReadingVisitor) -> None:
    """Only the posts of one feed, with its name; marking all there doesn't mark those of the other feed.

    It is offered where something is unread. At the end, a link leads to the rest of its channel, then to the next one.
    """
    await ann.server.follow_unscheduled("https://news.example/feed", "ann", "news")
    await ann.publish("c1", feed="https://news.example/feed", at=NOON, host="news.example")
    await ann.server.follow_unscheduled(OTHER, "ann", "home")
    await ann.publish("a2", "a1", at=NOON)
    await ann.publish("b2", "b1", feed=OTHER, at=NOON + 100, host="other.example")
    page = await ann.get("/channel/home")
    assert titles(page) == ["b2", "b1", "a2", "a1"]
    sources = [node.attributes["href"] for node in page.tree.css(".byline small a") if "/feed/" in str(node.attributes)]
    only = await ann.get(sources[0])
    assert (only.title, titles(only)) == ("A blog", ["b2", "b1"])
    (settings,) = [one.attributes["href"] for one in only.tree.css(".views a") if one.text() == "Feed settings"]
    assert (await ann.get(settings or "")).tree.css_first("h1").text() == "A blog"
    assert [await onward(ann, path) for path in (sources[0], "/channel/home")] == ["Next: Home 4", "Next: news 1"]
    await ann.mark_all(only)
    assert await ann.titles("/channel/home") == ["a2", "a1"]
    assert [await onward(ann, f"{sources[0]}{show}") for show in ("", "&show=all")] == ["Next: Home 2"] * 2
    assert await onward(ann, sources[0].partition("?")[0]) == "Next: All 3"
    for path, is_offered in ((f"{sources[0]}&show=all", False), ("/channel/home?show=all", True)):
        marking = (await ann.get(path)).tree.css_first(".marking")
        assert ("hidden" not in marking.attributes) is is_offered
    await ann.mark_all(await ann.get("/channel/home"))
    assert await onward(ann, sources[0]) == "Next: news 1"


@pytest.mark.parametrize("examined", [1, 10])
async def test_posts_of_a_feed_behind_many_others_are_found(
    ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch, examined: int
) -> None:
    """In both orders, with all posts and unread ones; posts of a large feed that are farther away by a link."""
    monkeypatch.setattr("microsub.timelines.pages.EXAMINED", examined)
    monkeypatch.setattr("microsub.timelines.pages._STEP", 7)
    monkeypatch.setattr("microsub.timelines.pages._GLOBAL_STEP", 7)
    await ann.server.follow_unscheduled(OTHER, "ann", "home")
    await ann.publish("old", "older")
    await ann.publish(*[f"new {n}" for n in range(60)], feed=OTHER, at=NOON + 100)
    feeds = {one.url: feed for feed, one in (await ann.server.channels.followed_feeds("ann")).items()}
    own, other = feeds[FEED], feeds[OTHER]
    for path in (f"/feed/{own}?channel=home", f"/feed/{own}", f"/feed/{own}?channel=home&show=unread"):
        assert sorted(await ann.titles(path)) == ["old", "older"], path
    page = await ann.get("/channel/home")
    await ann.browser.submit(page, "/view", order="oldest")
    with monkeypatch.context() as smaller:
        smaller.setattr("microsub.timelines.pages.EXAMINED", 2)
        smaller.setattr("microsub.timelines.pages._STEP", 2)
        assert len(await ann.titles(f"/feed/{other}?channel=home")) == 2
    await ann.browser.submit(page, "/view", order="newest")
    await ann.publish(*[f"newer {n}" for n in range(60)], feed=OTHER, at=NOON + 200)
    page = await ann.get(f"/feed/{own}?channel=home")
    onward = [link.attributes["href"] or "" for link in page.tree.css("#older [rel=next]")]
    assert bool(onward) == ("No posts on this page." in page.text) == (examined == 1)
    assert sorted(await ann.titles(onward[0] if onward else f"/feed/{own}")) == ["old", "older"]


@pytest.mark.parametrize("count", [0, 3, 20, 120])
async def test_a_feed_of_others_has_no_page(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """However many posts the user and the feed have."""
    monkeypatch.setattr("microsub.timelines.pages.EXAMINED", 1)
    monkeypatch.setattr("microsub.timelines.pages._STEP", 7)
    monkeypatch.setattr("microsub.timelines.pages._GLOBAL_STEP", 7)
    await ann.publish(*[f"own {n}" for n in range(count)])
    bob = await reading(ann.server, "bob", "home")
    await ann.server.follow_unscheduled(OTHER, "bob", "home")
    await ann.publish(*[f"secret {n}" for n in range(5)], feed=OTHER)
    feed = await ann.server.feeds.find(OTHER)
    for path in (f"/feed/{feed}?channel=home", f"/feed/{feed}", f"/feed/{feed}?show=unread", "/feed/999999"):
        assert (await ann.get(path)).status == 404, path
    assert len(await bob.titles(f"/feed/{feed}")) == 5


async def test_all_posts_of_a_feed_are_looked_up_once(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """To mark them, however many are unread."""
    monkeypatch.setattr("microsub.timelines.pages._STEP", 7)
    await ann.server.follow_unscheduled(OTHER, "ann", "home")
    await ann.publish("first")
    await ann.publish(*[f"old {n}" for n in range(230)], at=NOON + 500)
    await ann.publish(*[f"new {n}" for n in range(20)], feed=OTHER, at=NOON + 1000)
    feeds = {one.url: feed for feed, one in (await ann.server.channels.followed_feeds("ann")).items()}
    page = await ann.get(f"/feed/{feeds[FEED]}?channel=home")
    looked, original = [], pages.shown

    async def counting(*args: Any, **more: Any) -> Any:
        looked.append(args)
        return await original(*args, **more)

    monkeypatch.setattr(pages, "shown", counting)
    done = await ann.browser.submit(page, "/marks/all")
    assert len(looked) == 1
    assert "231 posts marked as read in A blog." in (await ann.get(done.location)).text


async def test_a_post_has_a_page(ann: ReadingVisitor) -> None:
    """The complete post, with links; no other user's post has one."""
    long = "<p>" + "Many words. " * 400 + "The end.</p>"
    id_ = await ann.publish_entry(
        Entry(guid="x", url="https://blog.example/x", name="Long", content=Content(html=long))
    )
    listed = await ann.get("/channel/home")
    assert "The end." not in listed.text
    assert "Continue reading" in listed.text
    page = await ann.get(f"/post/{id_}")
    assert page.title == "Long"
    assert "The end." in page.text
    bob = await reading(ann.server, "bob", "empty")
    assert (await bob.get(f"/post/{int(id_) + 1}")).status == 404
    other = await reading(ann.server, "carl", "mine")
    await ann.server.following.unfollow("carl", "mine", "https://blog.example/feed", ann.server.now)
    assert (await other.get(f"/post/{id_}")).status in {200, 404}


KINDS = {
    "like": (Entry(like_of=("https://a.example/liked",)), "Likes https://a.example/liked"),
    "repost": (Entry(repost_of=("https://a.example/said",)), "Reposts https://a.example/said"),
    "bookmark": (Entry(bookmark_of=("https://a.example/page",)), "Bookmarks https://a.example/page"),
    "reply": (
        Entry(
            in_reply_to=("https://a.example/q",),
            refs={"https://a.example/q": Entry(name="A question", author=Card(name="Zoe"), summary="Why?")},
        ),
        "In reply to Zoe : A question Why?",
    ),
    "rsvp": (Entry(rsvp="yes", in_reply_to=("https://a.example/party",)), "Going"),
    "event": (Entry(type="event", name="Party", start="2026-12-01T19:00", end="2026-12-01T23:00"), "When : 2026-12-01"),
    "checkin": (Entry(checkin=Card(name="A café", locality="Ulm")), "At : A café, Ulm"),
    "note": (Entry(content=Content(text="Just words")), "Just words"),
    "article": (Entry(name="Title", content=Content(html="<p>Body</p>")), "Title"),
    "photo": (Entry(photo=("https://a.example/1.jpg", "https://a.example/2.jpg")), "Unread"),
    "video": (Entry(video=("https://a.example/v.mp4",)), "▶ Video"),
    "audio": (
        Entry(
            audio=("https://a.example/a.mp3",),
            enclosure=(Enclosure("https://a.example/a.mp3", "audio/mpeg", 30_000_000, 1800, "Episode"),),
        ),
        "Audio: Episode 30 minutes 29 MB",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_post(ann: ReadingVisitor, kind: str) -> None:
    """The page names the kind of a post; pictures come from this server."""
    entry, words = KINDS[kind]
    await ann.publish_entry(entry)
    page = await ann.get("/channel/home")
    (post,) = page.tree.css(".post")
    assert kind in (post.attributes["class"] or "").split()
    assert re.sub(r"\s*:", ":", words) in re.sub(r"\s*:", ":", page.text)
    sources = [node.attributes["src"] or "" for node in post.css("img")]
    assert len(sources) == len(entry.photo)
    assert all(source.startswith("/image/") for source in sources)


async def test_an_episode_shows_its_chapters_and_people(ann: ReadingVisitor) -> None:
    """On its own page: chapters lead into its file, transcript, people and support are linked."""
    podcast = Podcast(
        season="2",
        episode="7",
        episode_type="bonus",
        chapter=(PodcastChapter(0.0, "Hello"), PodcastChapter(3723.5, "Tides", "https://tide.example/")),
        transcript=(Transcript("https://a.example/a.vtt", "text/vtt", "en"),),
        person=(
            Participant("Kaja", "Guest", "https://kaja.example/"),
            Participant("Mara"),
            Participant("Ole", "Rower"),
        ),
        funding=(Support("https://a.example/pay", "Pay us"),),
    )
    file = Enclosure("https://a.example/a.mp3", "audio/mpeg")
    id_ = await ann.publish_entry(
        Entry(guid="e", url="https://a.example/e", name="E", enclosure=(file,), podcast=podcast)
    )
    page = await ann.get(f"/post/{id_}")
    for words in (
        "Season 2 · Episode 7 · Bonus",
        "With Kaja (guest), Mara, Ole (Rower)",
        "1:02:03 Tides",
        "Transcript (en) · Pay us",
    ):
        assert words in page.text
    german = await ann.get(f"/post/{id_}", **{"accept-language": "de"})
    assert "Kaja (Gast), Mara, Ole (Rower)" in german.text
    chapters = [(node.attributes["href"], node.attributes["data-start"]) for node in page.tree.css("[data-start]")]
    assert chapters == [("https://a.example/a.mp3#t=0.0", "0.0"), ("https://a.example/a.mp3#t=3723.5", "3723.5")]
    assert "Transcript" not in (await ann.get("/channel/home")).text


async def test_a_review_shows_its_rating(ann: ReadingVisitor) -> None:
    """With what it is about."""
    review = Review("4", "5", Card(name="A knife", url="https://knives.example/"))
    await ann.publish_entry(Entry(type="review", guid="r", url="https://a.example/r", name="Sharp", review=review))
    page = await ann.get("/channel/home")
    assert "Review: A knife 4 of 5" in page.text
    assert page.tree.css_first('.fact a[href="https://knives.example/"]') is not None


async def test_a_picture_has_its_publishers_description(ann: ReadingVisitor) -> None:
    """For people who can't see it."""
    files = (Enclosure("https://a.example/1.jpg", "image/jpeg", title="A cat"),)
    await ann.publish_entry(Entry(photo=("https://a.example/1.jpg", "https://a.example/2.jpg"), enclosure=files))
    page = await ann.get("/channel/home")
    assert [node.attributes["alt"] for node in page.tree.css(".photos img")] == ["A cat", "Picture 2"]


async def test_search_needs_an_index(ann: ReadingVisitor) -> None:
    """If search is off, the page reports this."""
    assert "Search is disabled on this server." in (await ann.get("/search?q=words")).text


async def test_search_waits_for_its_index(ann: ReadingVisitor) -> None:
    """While it is being built, the page reports this; this isn't an error."""

    class Building:
        async def page(self, *_: object) -> bytes:
            raise SearchUnavailable("the index of posts isn't built yet")

    ann.server.use(post_search=Building())
    browser = Visitor(create_app(ann.server.parts, base_url=ADDRESS), ADDRESS)
    browser.client.cookies.update(ann.browser.client.cookies)
    page = await browser.get("/search?q=words")
    assert (page.status, "its index is being built" in page.text) == (503, True)


@pytest.mark.parametrize(
    "path", ["/channel/none", "/channel/a%20b", "/channel/home?source=x", "/post/1", "/post/x", "/channel/home?after=x"]
)
async def test_missing_pages_are_404(ann: ReadingVisitor, path: str) -> None:
    """The page says that it doesn't exist."""
    assert (await ann.get(path)).status in {400, 404}


async def test_pages_speak_german(ann: ReadingVisitor) -> None:
    """If the browser prefers German, or the user chose it."""
    await ann.publish("a")
    page = await ann.get("/channel/home", **{"accept-language": "fr, de-AT;q=0.9, en;q=0.8"})
    assert page.tree.css_first("html").attributes["lang"] == "de"
    assert "Alle als gelesen" in page.text
    display = await ann.get("/display")
    await ann.browser.submit(display, "/display", language="de", theme="dark", size="large")
    page = await ann.get("/channel/home")
    html = page.tree.css_first("html").attributes
    assert (html["lang"], html["data-theme"], html["data-size"]) == ("de", "dark", "large")
    await ann.browser.submit(await ann.get("/display"), "/display", language="xx", theme="';--")
    assert (await ann.get("/display")).tree.css_first("html").attributes["data-theme"] == "auto"


async def test_requests_count(ann: ReadingVisitor) -> None:
    """The reading pages have the same limit as apps."""
    ann.server.settings = InstanceSettings(quotas=Quotas(requests=3))
    shown = [(await ann.get("/channel/home")).response for _ in range(5)]
    assert [reply.status_code for reply in shown] == [200, 200, 200, 429, 429]
    assert int(shown[-1].headers["retry-after"]) > 0


async def test_a_page_is_small(ann: ReadingVisitor) -> None:
    """A full page with long posts is below 60 KB, with its styles and scripts, as sent, below 52 KB."""
    for number in range(20):
        html = f"<p>{'Words of a long post. ' * 500}</p>"
        entry = Entry(guid=f"p{number}", url=f"https://blog.example/p{number}", name="T", content=Content(html=html))
        await ann.publish_entry(entry, at=NOON + number)
    page = await ann.get("/channel/home")
    assert len(ids(page)) == 20
    links = [
        node.attributes.get("href") or node.attributes.get("src")
        for node in page.tree.css("link:not([rel=expect]), script")
    ]
    sizes = [(await ann.get(link or "")).response.num_bytes_downloaded for link in links]
    modules = ["feed.js", "marks.js", "news.js"]
    beside = (next(link or "" for link in links if (link or "").endswith("reader.js"))).rpartition("/")[0]
    sizes += [(await ann.get(f"{beside}/{name}")).response.num_bytes_downloaded for name in modules]
    assert len(page.response.content) < 60_000
    assert page.response.num_bytes_downloaded + sum(sizes) < 52_000
    assert 1 + len(sizes) <= 12


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip, br", "gzip"), ("br;q=1.0, gzip;q=0.8", "gzip"), ("gzip;q=0", None), ("gzip;q=0.0, *", None), ("", None)],
)
async def test_scripts_and_styles_are_compressed(ann: ReadingVisitor, accepted: str, encoding: str | None) -> None:
    """For browsers that accept it, as pages are."""
    page = await ann.get("/channel/home")
    sheet = page.tree.css_first("link[rel=stylesheet]").attributes["href"] or ""
    plain = (await ann.browser.client.get(sheet, headers={"accept-encoding": ""})).content
    reply = await ann.browser.client.get(sheet, headers={"accept-encoding": accepted})
    assert (reply.headers.get("content-encoding"), reply.content) == (encoding, plain)
    assert reply.headers["vary"] == "Accept-Encoding"
    read = await ann.browser.client.get("/channel/home", headers={"accept-encoding": accepted})
    assert (read.headers.get("content-encoding"), read.headers["vary"]) == (encoding, "Accept-Encoding")
    assert "</html>" in read.text


async def test_the_length_of_a_compressed_page_varies(ann: ReadingVisitor) -> None:
    """So it tells nothing about a few bytes."""
    pages = [(await ann.get("/channel/home")).response for _ in range(30)]
    assert {page.headers["content-encoding"] for page in pages} == {"gzip"}
    lengths = [page.num_bytes_downloaded for page in pages]
    assert max(lengths) - min(lengths) > 40


async def test_long_pages_are_compressed_in_a_thread(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A post of four megabytes would keep the event loop from other users' pages."""
    threads: list[threading.Thread] = []

    class Noting(gzip.GzipFile):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            threads.append(threading.current_thread())
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(gzip, "GzipFile", Noting)
    text = " ".join(f"{number} words that differ" for number in range(20_000))
    id_ = await ann.publish_entry(
        Entry(guid="1", name="One", url="https://blog.example/1", content=Content(html=f"<p>{text}</p>", text=text))
    )
    page = await ann.get(f"/post/{id_}")
    assert "19999 words that differ" in page.response.text
    assert page.response.headers["content-encoding"] == "gzip"
    assert int(page.response.headers["content-length"]) == page.response.num_bytes_downloaded
    assert len(threads) == 1
    assert threading.current_thread() not in threads


async def test_posts_are_fitted_in_a_thread(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long post of thousands of elements blocked the event loop for a second."""
    threads: list[threading.Thread] = []
    views = PostForms.views

    def noting(forms: PostForms, items: Sequence[Mapping[str, Any]]) -> list[PostView]:
        threads.append(threading.current_thread())
        return views(forms, items)

    monkeypatch.setattr(PostForms, "views", noting)
    await ann.publish("b", "a")
    (first, _) = ids(await ann.get("/channel/home"))
    assert (await ann.get(f"/post/{first}")).status == 200
    assert len(threads) == 2
    assert threading.current_thread() not in threads


async def test_pages_of_one_user_take_one_thread(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred long posts at once delayed other users' pages for seconds."""
    id_ = await ann.publish_entry(Entry(guid="1", name="One", url="https://blog.example/1"))
    held = HeldWork(PostForms.views)

    def views(forms: PostForms, items: Sequence[Mapping[str, Any]]) -> Any:
        return held(forms, items)

    monkeypatch.setattr(PostForms, "views", views)
    opened = [asyncio.create_task(ann.get(f"/post/{id_}")) for _ in range(4)]
    await asyncio.to_thread(held.begun.wait, 30)
    await ann.get("/health")
    held.go_on.set()
    assert [page.status for page in await asyncio.gather(*opened)] == [200] * 4
    assert (held.calls, held.together) == (4, 1)


async def test_a_post_of_endless_markup_is_shown_in_part(ann: ReadingVisitor) -> None:
    """Parsing 40,000 elements delayed all users for half a second, outside the event loop too."""
    html = "<b>a</b><i>1</i>" * 20_000
    id_ = await ann.publish_entry(Entry(guid="1", name="One", url="https://blog.example/1", content=Content(html)))
    page = await ann.get(f"/post/{id_}")
    assert len(page.tree.css(".content b")) == 2500
    assert "Read the rest in the original" in page.text
    assert "Read the rest in the original" not in (await ann.get("/channel/home")).text


async def test_a_post_that_several_feeds_carry(ann: ReadingVisitor) -> None:
    """Its page names the others that the user follows, and no other feeds."""
    for feed, title in ((OTHER, "The other blog"), ("https://third.example/feed", "A stranger's blog")):
        await ann.server.publish(feed, *posts("same", common="the same post", host="blog.example"), title=title)
    await ann.server.follow_unscheduled(OTHER, "ann", "later")
    await ann.publish("same", common="the same post")
    page = await ann.get(f"/post/{ids(await ann.get('/channel/home'))[0]}")
    assert "Also in The other blog" in page.text
    assert "stranger" not in page.text


async def test_all_counts_what_it_lists(ann: ReadingVisitor) -> None:
    """A post in two channels, or saved as well, counts once."""
    await ann.server.follow_unscheduled(FEED, "ann", "later")
    await ann.publish("a", "b", "c")
    page = await ann.get("/channel/global")
    (first, *_) = ids(page)
    await ann.change(page, "save", first)
    page = await ann.get("/channel/global")
    assert len(ids(page)) == 3
    assert page.tree.css_first("#channels [data-channel=global] [data-count]").text() == "3"
    assert page.tree.css_first("#channels [data-channel=later] [data-count]").text() == "3"


async def _named(ann: ReadingVisitor) -> None:
    """Ann's name for her blog; of its posts one names the feed as author, one a guest, and one nobody."""
    for name, author in (("own", Card(name="A blog", url="https://blog.example/")), ("guest", Card(name="Gwen"))):
        await ann.publish_entry(Entry(guid=name, name=name, url=f"https://blog.example/{name}", author=author))
    await ann.publish_entry(Entry(guid="nobody", name="nobody", url="https://blog.example/nobody"))
    (feed,) = await ann.server.channels.subscriptions("ann", "home")
    await ann.server.channels.update_subscription("ann", "home", feed.feed, name="ZZ my name")


async def test_a_feed_has_the_name_that_its_reader_gave_it(ann: ReadingVisitor) -> None:
    """In bylines of lists and of a post's page, as its source and for a missing author; guests keep their names."""
    await ann.get("/channel/home")
    await _named(ann)
    page = await ann.get("/channel/home")
    lines = {one.css_first("h2").text().strip(): one.css_first(".byline").text() for one in page.tree.css(".post")}
    assert "ZZ my name" in lines["own"]
    assert "ZZ my name" in lines["nobody"]
    assert "Gwen" in lines["guest"]
    assert "ZZ my name" in lines["guest"]
    assert "A blog" not in page.text
    post = await ann.get(f"/post/{ids(page)[0]}")
    assert "ZZ my name" in post.text
    assert "A blog" not in post.text
    (feed,) = await ann.server.channels.subscriptions("ann", "home")
    await ann.server.channels.update_subscription("ann", "home", feed.feed, name="")
    assert "ZZ my name" not in (await ann.get("/channel/home")).text


async def test_the_name_of_a_feed_leads_to_its_posts(ann: ReadingVisitor) -> None:
    """As the byline or next to it; a guest's name leads to the guest, and in the list of the feed to its site.

    Somebody who reads unread posts goes on with these.
    """
    await _named(ann)
    (feed,) = await ann.server.channels.subscriptions("ann", "home")
    unread, only = f"/feed/{feed.feed}?channel=home&show=unread", f"/feed/{feed.feed}?channel=home"

    async def bold(path: str) -> dict[str, str | None]:
        posts = (await ann.get(path)).tree.css(".post")
        links = {one.css_first("h2").text().strip(): one.css_first(".byline b a") for one in posts}
        return {name: link.attributes["href"] if link else None for name, link in links.items()}

    listed, whole, of_feed = [await bold(path) for path in ("/channel/home", "/channel/home?show=all", only)]
    assert (listed["own"], listed["nobody"]) == (unread, unread)
    assert (whole["own"], whole["nobody"]) == (only, only)
    assert listed["guest"] == of_feed["guest"] != only
    assert only not in of_feed.values()


async def test_apps_show_the_readers_name_for_a_missing_author(ann: ReadingVisitor, server: World) -> None:
    """In timelines, and in the tree; `_source` stays an id. Others see the feed's own name."""
    await _named(ann)
    items = {one["name"]: one for one in (await ann.reader.get(action="timeline", channel="home"))["items"]}
    authors = {name: one["author"].get("name") for name, one in items.items()}
    assert authors == {"own": "ZZ my name", "nobody": "ZZ my name", "guest": "Gwen"}
    assert items["own"]["author"]["url"] == "https://blog.example/"
    (feed,) = await server.channels.subscriptions("ann", "home")
    assert {one["_source"] for one in items.values()} == {feed.feed}
    tree = (await ann.reader.get(action="channels", method="tree"))["channels"]
    assert "ZZ my name" in str(tree)
    ben = await reading(server, "ben", "own")
    await server.publish(FEED, *posts("later"))
    theirs = (await ben.reader.get(action="timeline", channel="own"))["items"]
    assert "ZZ my name" not in str(theirs)


async def test_a_name_that_came_before_the_first_poll_stands_at_the_posts(
    ann: ReadingVisitor, server: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an import: the page that was read while the feed had no title yet is forgotten soon."""
    monkeypatch.setattr(feed_names, "UNPOLLED_KEPT", 0.0)
    (feed,) = await server.channels.subscriptions("ann", "home")
    await server.channels.update_subscription("ann", "home", feed.feed, name="ZZ my name")
    await ann.get("/channel/home")
    card = Card(name="A blog", url="https://blog.example/")
    await ann.publish_entry(Entry(guid="own", name="own", url="https://blog.example/own", author=card))
    byline = (await ann.get("/channel/home")).tree.css_first(".post .byline b")
    assert byline.text().strip() == "ZZ my name"


async def test_a_read_only_redis_hides_no_page(ann: ReadingVisitor, server: World) -> None:
    """Users of an earlier version have no note that they never named a feed; it is written when that is possible."""
    await ann.publish("a post")
    await server.redis.command("HDEL", keys.user("ann"), "names")
    is_full = True

    async def refuse(name: str, _: Any) -> None:
        if is_full and name in {"compare_and_set", "HSETNX"}:
            raise StoreFull("used memory > 'maxmemory'")

    other = server.through(Between(server.redis, refuse))
    assert b"a post" in await other.parts.reading.page("ann", "home", PageQuery(20), server.now)
    is_full = False
    assert b"a post" in await server.parts.reading.page("ann", "home", PageQuery(20), server.now)
    assert await server.redis.command("HGET", keys.user("ann"), "names") == b"0"
    await server.parts.reading.data("nobody", [])
    assert not await server.redis.command("EXISTS", keys.user("nobody"))


async def test_own_names_cost_a_page_no_round_trip(ann: ReadingVisitor, server: World) -> None:
    """They are read again only when one of them has changed."""
    counted = server.through(CountingRedis(server.redis))

    async def page() -> tuple[int, bool]:
        counted.redis.trips = 0
        data = await counted.parts.reading.page("ann", "home", PageQuery(20), server.now)
        return counted.redis.trips, b"ZZ my name" in data

    await ann.publish("a post")
    await page()
    usual, _ = await page()
    await _named(ann)
    first, again = await page(), await page()
    assert first[0] > again[0] == usual
    assert (first[1], again[1]) == (True, True)
    (feed,) = await server.channels.subscriptions("ann", "home")
    await server.channels.unfollow("ann", "home", feed.feed)
    await page()
    assert await page() == (usual, False)


async def test_publishers_pages_open_beside_the_list(ann: ReadingVisitor) -> None:
    """In a tab, from the head, the text and the actions of a post, in every view; pages of this server don't."""
    written = (ADDRESS, f"{ADDRESS}/feed", "HTTPS://a.example/?a=1&amp;b=2", "mailto:a@a.example", "#n12345678-a")
    chapters = (PodcastChapter(0.0, "Start", "https://a.example/start"),)
    post = Entry(
        guid="1",
        url="https://a.example/1",
        name="One",
        in_reply_to=(f"{ADDRESS}/feeds/x",),
        content=Content("".join(f'<a href="{url}">More</a>' for url in written), "More"),
        author=Card(name="Ann", url="https://a.example/ann"),
        like_of=("https://b.example/1",),
        review=Review(item=Card(name="Tea", url="https://a.example/tea")),
        enclosure=(Enclosure("https://a.example/1.mp3", "audio/mpeg"),),
        podcast=Podcast(
            chapter=chapters,
            person=(Participant("Bea", url="https://a.example/bea"),),
            transcript=(Transcript("https://a.example/words"),),
            funding=(Support("https://a.example/pay"),),
        ),
    )
    path = f"/post/{await ann.publish_entry(post)}"
    for view in ("list", "cards", "full"):
        page = await ann.get("/channel/home")
        await ann.browser.post("/view", {**fields_of(page.form("/view")), "view": view})
        page = await ann.get("/channel/home")
        assert page.tree.css_first("[data-original]").attributes["target"] == "_blank"
    found = {}
    for place in (path, f"{path}/chapters", "/channel/home"):
        shown = (await ann.get(place)).tree.css("main a[href]")
        links = {one.attributes["href"] or "": one.attributes for one in shown}
        away = {url for url in links if url.lower().startswith("http") and not url.startswith(ADDRESS)}
        assert {url for url, has in links.items() if "target" in has} == away, place
        assert all({"noopener", "noreferrer"} <= set((links[url]["rel"] or "").split()) for url in away), place
        found[place] = len(away)
    assert found == {path: 11, f"{path}/chapters": 2, "/channel/home": 5}


async def test_a_list_begins_at_a_moment(ann: ReadingVisitor) -> None:
    """In both orders; with no post from then on it begins as usual, and so it does at none."""
    for place in range(4):
        await ann.publish(str(place), at=NOON + 60 * place)
    at = f"/channel/home?show=all&at={int(NOON) + 61}"
    assert await ann.titles(at) == ["1", "0"]
    assert [link.text() for link in (await ann.get(at)).tree.css(".paging [rel=prev]")] == ["Newer posts"]
    for wrong in ("x", "-1", "9" * 12, "²", ""):
        assert len(await ann.titles(f"/channel/home?show=all&at={wrong}")) == 4
    assert (await ann.get(f"/channel/home?at={int(NOON) - 9}")).location == "/channel/home"
    page = await ann.get("/channel/home")
    await ann.browser.post("/view", {**fields_of(page.form("/view")), "order": "oldest"})
    assert await ann.titles(at) == ["1", "2", "3"]


async def test_a_text_that_was_cut_leads_to_the_original(ann: ReadingVisitor) -> None:
    """On the post's own page, which has no more of it."""
    post = Entry(url="https://a.example/long", name="Long", content=Content("<p>Begun</p>", "Begun"), is_cut=True)
    page = await ann.get(f"/post/{await ann.publish_entry(post)}")
    assert "This post is too long to show in full." in page.text
    (link,) = [one for one in page.tree.css("[data-body] a") if one.text() == "Read the rest in the original"]
    assert link.attributes["href"] == "https://a.example/long"


async def test_posts_are_read_one_after_the_other_without_scripts(ann: ReadingVisitor, server: World) -> None:
    """From a list, in its order; a mark goes on, links mark nothing; at its end, the list comes again."""
    await ann.publish("old", at=NOON - 7200)
    await ann.publish("middle", at=NOON - 3600)
    await ann.publish("new")
    new, middle, old = await ann.reader.ids("home")
    listed = "/channel/home"
    page = await ann.get(f"/post/{new}", referer=f"{ADDRESS}{listed}")
    steps = {one.attributes["rel"]: one.attributes["href"] for one in page.tree.css("noscript .paging a")}
    assert steps["next"] == f"/post/{new}/next?list=%2Fchannel%2Fhome"
    assert (await ann.get(steps["next"])).location == f"/post/{middle}?list=%2Fchannel%2Fhome"
    assert (await ann.get(steps["prev"])).location == listed
    assert len(await ann.reader.ids("home", is_read="false")) == 3
    seen = []
    while page.title != "Home":
        seen.append(page.title)
        form = fields_of(page.tree.css_first("noscript form"))
        marked = await ann.browser.post("/marks", {**form, "read": page.tree.css_first(".post").attributes["data-id"]})
        page = await ann.get((await ann.get(marked.location)).location)
    assert seen == ["new", "middle", "old"]
    assert await ann.reader.ids("home", is_read="false") == []
    page = await ann.get(f"/post/{middle}?list=%2F%3Fshow%3Dall")
    assert page.tree.css_first("noscript form") is None
    assert (await ann.get(f"/post/{middle}/previous?list=%2F%3Fshow%3Dall")).location.startswith(f"/post/{new}?")
    assert (await ann.get(f"/post/{middle}/next?list=%2F%3Fshow%3Dall")).location.startswith(f"/post/{old}?")
    await ann.browser.submit(await ann.get(listed), "/view", order="oldest")
    assert (await ann.get(f"/post/{middle}/next?list={listed}?show=all")).location.startswith(f"/post/{new}?")
    feed = await server.feeds.find(FEED)
    assert (await ann.get(f"/post/{middle}/next", referer=f"{ADDRESS}/feed/{feed}")).location.startswith("/post/")
    for other in ("/settings", "/feed/x", "/channel/..", "https://evil.example/"):
        assert (await ann.get(f"/post/{middle}/next?list={other}")).location == listed


async def test_whole_posts_for_reading_without_a_network(ann: ReadingVisitor) -> None:
    """Twenty at most, whatever the view is; lists have the beginning of a long one."""
    long = "<p>" + "word " * 5000 + "end</p>"
    for number in range(25):
        await ann.publish_entry(Entry(url=f"https://blog.example/{number}", content=Content(html=long)), NOON + number)
    await ann.browser.submit(await ann.get("/channel/global"), "/view", view="list")
    kept = await ann.get("/channel/global?whole=1")
    texts = [one.text() for one in kept.tree.css(".post .content")]
    assert [one.strip().endswith("end") for one in texts] == [True] * 20
    assert len((await ann.get("/channel/global")).tree.css(".row.list")) == 25
