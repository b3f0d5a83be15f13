"""Chapters in a document that an episode names, on its page and on one of their own."""

from __future__ import annotations

import json

import pytest

from microsub.formats.wire import dump, to_wire
from microsub.model.jf2 import Enclosure, Entry, Podcast, PodcastChapter
from microsub.reader.reading.post_page import CHAPTERS_FAILED
from tests.articles.test_stage import HOST
from tests.reader.conftest import ReadingVisitor
from tests.support.posts import candidate
from tests.support.readers import FEED
from tests.support.web import Answer, Publisher
from tests.support.world import World, loopback

CHAPTERS = json.dumps({"chapters": [{"startTime": 62, "title": "Boats"}, {"startTime": 0, "title": "Hello"}]}).encode()


@pytest.fixture(autouse=True)
async def before(server: World) -> None:
    """All names lead to this machine."""
    server.resolver = loopback


async def episode(ann: ReadingVisitor, podcast: Podcast) -> str:
    """The path of an episode's page."""
    file = Enclosure("https://a.example/one.mp3", "audio/mpeg")
    url = "https://a.example/one"
    entry = Entry(name="One", url=url, guid=url, enclosure=(file,), podcast=podcast)
    await ann.server.publish(FEED, candidate("one", wire=dump(to_wire(entry)), link=url))
    return f"/post/{(await ann.reader.ids('home'))[0]}"


async def test_the_named_document_is_read_once_when_somebody_asks(ann: ReadingVisitor, site: Publisher) -> None:
    site.serve("/chapters", Answer(CHAPTERS, 200, [("content-type", "application/json+chapters")]))
    path = await episode(ann, Podcast(chapters=site.url("/chapters", HOST)))
    page = await ann.get(path)
    assert page.tree.css_first("[data-chapters]").attributes["href"] == f"{path}/chapters"
    assert site.count("/chapters") == 0
    for _ in range(2):
        listed = (await ann.get(f"{path}/chapters")).tree.css(".chapters a")
        assert [one.text() for one in listed] == ["Hello", "Boats"]
        assert listed[1].attributes["href"] == "https://a.example/one.mp3#t=62.0"
    assert site.count("/chapters") == 1


@pytest.mark.parametrize("named", [False, True])
async def test_links_lose_their_user_names_and_passwords(ann: ReadingVisitor, site: Publisher, named: bool) -> None:
    """In a document that the episode names, and in the feed itself."""
    link = "https://ann:secret@boats.example/pier"
    chapters = json.dumps({"chapters": [{"startTime": 0, "title": "Pier", "url": link}]}).encode()
    site.serve("/chapters", Answer(chapters, 200, [("content-type", "application/json+chapters")]))
    own = Podcast(chapter=(PodcastChapter(0.0, "Pier", link),))
    path = await episode(ann, Podcast(chapters=site.url("/chapters", HOST)) if named else own)
    page = await ann.get(f"{path}/chapters")
    assert page.tree.css_first('.chapters a[href="https://boats.example/pier"]') is not None
    assert "secret" not in page.text
    assert "secret" not in (await ann.get(path)).text


@pytest.mark.parametrize("body", [b"<p>", b'{"chapters": 1}', b"[" * 100_000, b"{" + b" " * 5_000_000 + b"}"])
async def test_unreadable_chapters_are_explained(ann: ReadingVisitor, site: Publisher, body: bytes) -> None:
    """One request to the publisher is enough for an hour."""
    site.serve("/chapters", Answer(body))
    path = await episode(ann, Podcast(chapters=site.url("/chapters", HOST)))
    for _ in range(2):
        page = await ann.get(f"{path}/chapters")
        assert page.status == 404
        assert "The chapters can’t be read:" in page.text
    assert site.count("/chapters") == 1


async def test_a_passing_failure_is_forgotten_soon(ann: ReadingVisitor, site: Publisher) -> None:
    """After a minute, not after an hour."""
    site.serve("/chapters", Answer(b"", 503))
    path = await episode(ann, Podcast(chapters=site.url("/chapters", HOST)))
    assert (await ann.get(f"{path}/chapters")).status == 404
    site.serve("/chapters", Answer(CHAPTERS, 200, [("content-type", "application/json+chapters")]))
    assert (await ann.get(f"{path}/chapters")).status == 404
    ann.server.now += CHAPTERS_FAILED
    assert (await ann.get(f"{path}/chapters")).tree.css(".chapters a")


async def test_the_reason_is_in_the_language_of_the_page(ann: ReadingVisitor, site: Publisher) -> None:
    site.serve("/chapters", Answer(b'{"chapters": 1}'))
    path = await episode(ann, Podcast(chapters=site.url("/chapters", HOST)))
    page = await ann.get(f"{path}/chapters", **{"accept-language": "de"})
    assert "Die Kapitel lassen sich nicht lesen: dieses Dokument hat keine Kapitel" in page.text


async def test_private_addresses_are_refused(ann: ReadingVisitor, server: World) -> None:
    async def private(_host: str, _port: int) -> list[str]:
        return ["10.0.0.1"]

    server.resolver = private
    page = await ann.get(f"{await episode(ann, Podcast(chapters='https://inside.example/c.json'))}/chapters")
    assert page.status == 404


async def test_chapters_of_the_feed_need_no_document(ann: ReadingVisitor, site: Publisher) -> None:
    own = (PodcastChapter(5.0, "Own"),)
    path = await episode(ann, Podcast(chapters=site.url("/chapters", HOST), chapter=own))
    assert [one.text() for one in (await ann.get(path)).tree.css(".chapters a")] == ["Own"]
    assert [one.text() for one in (await ann.get(f"{path}/chapters")).tree.css(".chapters a")] == ["Own"]
    assert site.count("/chapters") == 0


async def test_an_episode_without_chapters(ann: ReadingVisitor) -> None:
    page = await ann.get(f"{await episode(ann, Podcast(season='1'))}/chapters")
    assert "This episode has no chapters." in page.text
