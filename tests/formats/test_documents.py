"""Documents of our own follow the rules of their formats, and have the content of the entries that they were made from.

The entries are those of all documents in `tests/data/formats`, and of the eight real feeds if they are available. The
rules are those of the specifications, and the reasons for which validators and readers reject documents.
"""

from __future__ import annotations

import functools
import html
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import feedparser
import pytest

from microsub.formats.documents import FORMATS
from microsub.formats.documents.values import FeedDocument, files, is_iri, media_type, shown, uri
from microsub.formats.entry_id import says_no_more
from microsub.formats.html.text import html_to_text
from microsub.formats.parse import parse
from microsub.formats.write import write_atom, write_jsonfeed, write_rss
from microsub.model.jf2 import (
    Card,
    Content,
    Enclosure,
    Entry,
    Feed,
    Participant,
    Podcast,
    PodcastChapter,
    Review,
    Support,
    Transcript,
)
from tests.support import SHARED_CORPUS

DATA = Path(__file__).parents[1] / "data" / "formats"
CORPUS = SHARED_CORPUS / "feeds"
BASE = "https://reader.example/feeds/kim/picks"
ADDRESSES = {form: f"{BASE}.{form}" for form in FORMATS}
ATOM = "{http://www.w3.org/2005/Atom}"
MEDIA = "{http://search.yahoo.com/mrss/}"
NOW = datetime(2026, 11, 23, 5, 0, tzinfo=UTC)
URI = re.compile(r"(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=\[\]-]|%[0-9A-Fa-f]{2})*")


def expected_of(path: Path) -> dict[str, Any]:
    """The expected result for a document of the own corpus; empty for others."""
    beside = path.with_name(path.name.rpartition(".")[0] + ".jf2.json")
    return json.loads(beside.read_text()) if beside.exists() else {}


OWN = (path for path in DATA.iterdir() if not path.name.endswith(".jf2.json"))
SOURCES = sorted([*(path for path in OWN if "error" not in expected_of(path)), *CORPUS.glob("*.xml")])


def document(*entries: Entry, **more: Any) -> FeedDocument:
    return FeedDocument("urn:uuid:9f2c6f2e-6f0f-4c62-9d0c-000000000001", "Picks", ADDRESSES, NOW, entries, **more)


def read_source(path: Path) -> Feed:
    served = expected_of(path)
    return parse(path.read_bytes(), served.get("url", f"https://blog.example/{path.name}"), served.get("content_type"))


@functools.cache
def of_source(path: Path) -> FeedDocument:
    """The entries of a document as those of an output feed: each with an id, a date and an author."""
    entries = []
    for place, entry in enumerate(read_source(path).entries[:60]):
        guid = entry.guid if entry.guid and is_iri(entry.guid) else f"urn:uuid:9f2c6f2e-6f0f-4c62-9d0c-{place:012}"
        entries.append(replace(entry, guid=guid, published=entry.published or NOW))
    return document(*entries)


@functools.cache
def written(path: Path, form: str) -> bytes:
    """The entries of a source in this format."""
    return FORMATS[form].write(of_source(path))


# --- the rules -------------------------------------------------------------------------------------------------------


def assert_address(text: str | None) -> None:
    """Absolute, in ASCII, without blanks."""
    assert text
    assert re.match(r"https?://[^\s/]+|mailto:|urn:|tag:", text), text
    assert not re.search(r"\s", text)


def assert_rss(written: bytes) -> None:
    root = ET.fromstring(written)
    assert root.tag == "rss"
    assert root.get("version") == "2.0"
    assert re.search(rb"<rss [^\n>]*>", written), "the root element stands on one line"
    channel = root.find("channel")
    assert channel is not None
    for required in ("title", "link", "description"):
        assert (channel.findtext(required) or "").strip(), required
    selves = [one for one in channel.findall(f"{ATOM}link") if one.get("rel") == "self"]
    assert [one.get("href") for one in selves] == [ADDRESSES["rss"]]
    for item in channel.findall("item"):
        assert (item.findtext("title") or "").strip()
        assert item.find("author") is None, "an e-mail address is wanted there"
        guid = item.find("guid")
        assert guid is not None
        assert guid.get("isPermaLink") == "false"
        assert guid.text
        assert len(item.findall("enclosure")) <= 1
        for enclosure in item.findall("enclosure"):
            assert_address(enclosure.get("url"))
            assert (enclosure.get("length") or "").isdecimal()
            assert "/" in (enclosure.get("type") or "")
        for content in item.findall(f"{MEDIA}content"):
            assert_address(content.get("url"))
        if (address := item.findtext("link")) is not None:
            assert_address(address)
            assert address.isascii()
        if (date := item.findtext("pubDate")) is not None:
            assert parsedate_to_datetime(date).tzinfo is not None


def assert_atom(written: bytes) -> None:
    root = ET.fromstring(written)
    assert root.tag == f"{ATOM}feed"
    assert re.search(rb"<feed [^\n>]*>", written)
    for node in (root, *root.findall(f"{ATOM}entry")):
        assert (node.findtext(f"{ATOM}title") or "").strip()
        assert is_iri(node.findtext(f"{ATOM}id") or "")
        stamp = node.findtext(f"{ATOM}updated") or ""
        assert datetime.fromisoformat(stamp).tzinfo is not None
    ids = [entry.findtext(f"{ATOM}id") for entry in root.findall(f"{ATOM}entry")]
    assert len(ids) == len(set(ids)) or len(ids) > 0
    for entry in root.findall(f"{ATOM}entry"):
        assert (entry.findtext(f"{ATOM}author/{ATOM}name") or "").strip()
        links = entry.findall(f"{ATOM}link")
        alternates = [one for one in links if one.get("rel") == "alternate"]
        assert alternates or entry.find(f"{ATOM}content") is not None
        assert len(alternates) <= 1
        for one in links:
            assert_address(one.get("href"))
            assert (one.get("length") or "0").isdecimal()
    assert [one.get("href") for one in root.findall(f"{ATOM}link") if one.get("rel") == "self"] == [ADDRESSES["atom"]]


def assert_json_feed(written: bytes) -> None:
    found = json.loads(written)
    assert found["version"] == "https://jsonfeed.org/version/1.1"
    assert found["title"]
    assert found["feed_url"] == ADDRESSES["json"]
    for item in found["items"]:
        assert isinstance(item["id"], str)
        assert item["id"]
        assert isinstance(item.get("content_html", item.get("content_text")), str)
        for name in ("url", "external_url", "image", "banner_image"):
            if name in item:
                assert_address(item[name])
        for name in ("date_published", "date_modified"):
            if name in item:
                assert datetime.fromisoformat(item[name]).tzinfo is not None
        for attachment in item.get("attachments", ()):
            assert_address(attachment["url"])
            assert "/" in attachment["mime_type"]
        assert all(isinstance(tag, str) for tag in item.get("tags", ()))
        assert isinstance(item.get("authors", []), list)


def assert_page(written: bytes) -> None:
    text = written.decode()
    assert text.startswith("<!DOCTYPE html>")
    assert "<script" not in text.lower()
    assert 'class="h-feed"' in text


RULES = {"rss": assert_rss, "atom": assert_atom, "json": assert_json_feed, "html": assert_page}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_every_format_keeps_to_its_rules(path: Path) -> None:
    """This holds for entries from any document."""
    for form, rules in RULES.items():
        rules(written(path, form))


def test_a_feed_with_a_language_has_its_words() -> None:
    """Of its page, and of what a post responds to, where and when; English for languages that aren't known."""
    there = Card(name="Hafen")
    entries = (
        Entry(
            guid="urn:1", published=NOW, updated=NOW, repost_of=("https://b.example/1",), featured="https://b.example/p"
        ),
        Entry(guid="urn:2", published=NOW, checkin=there, rsvp="yes", start="2026-03-05T10:00", location=there),
        Entry(guid="urn:3", published=NOW, review=Review(item=Card(name="Tee"), rating="4", best="5")),
        Entry(guid="urn:4", published=NOW),
    )
    said = {}
    for language in ("", "fr", "de-AT"):
        made = FeedDocument(
            "urn:f", "Kim", ADDRESSES, NOW, entries, language=language, previous={"html": "https://r.example/older"}
        )
        said[language] = [html_to_text(FORMATS[form].write(made).decode()) for form in FORMATS]
    assert [text for text in said["fr"] if text in said[""] and "Follow:" in text]
    page = next(text for text in said["de-AT"] if "Folgen:" in text)
    wanted = (
        "Folgen: RSS, Atom, JSON Feed",
        "Weitergegeben: https://b.example/1",
        "Ältere Beiträge",
        "Bild",
        "Ohne Titel",
    )
    dated = ("23. November 2026, 05:00", "geändert 2026-11-23", "Wann: 5. März 2026, 10:00", "Wo: Hafen", "Zusage: yes")
    assert [one for one in (*wanted, *dated, "Eingecheckt: Hafen", "Bewertung: 4 von 5") if one not in page] == []
    english = r"Follow|Reposted|Older|Picture|Untitled|changed|When|Where|RSVP|Checked|Review|Rating|March"
    assert [re.findall(english, text) for text in said["de-AT"]] == [[]] * len(FORMATS)


def test_a_page_links_the_players_in_a_post() -> None:
    """The page of an output feed shows no foreign frames; followers get them."""
    player = "https://www.youtube.com/embed/dQw4w9WgXcQ"
    made = document(
        Entry(
            guid="urn:x:1",
            published=NOW,
            content=Content(html=f'<p>Look:</p><iframe src="{player}" title="A &amp; b" sandbox=""></iframe>'),
        )
    )
    text = FORMATS["html"].write(made).decode()
    assert '<a href="https://www.youtube.com/watch?v=dQw4w9WgXcQ">' in text
    assert "▶ A &amp; b (youtube.com)" in text
    assert f'src="{player}"' in text


# --- and back --------------------------------------------------------------------------------------------------------


def text_of(entry: Entry) -> str:
    return " ".join(((entry.content and entry.content.text) or "").split())


def same_files(entry: Entry) -> list[tuple[str, str, int | None]]:
    return sorted((uri(one.url), media_type(one), one.length) for one in files(entry))


def text_shown(entry: Entry) -> str:
    return " ".join(html_to_text(shown(entry)).split())


def comparable(entry: Entry, form: str) -> dict[str, Any]:
    """The fields that must be the same, as far as the format has them."""
    found: dict[str, Any] = {
        "guid": entry.guid,
        "published": entry.published and entry.published.replace(microsecond=0),
        "updated": entry.updated and entry.updated.replace(microsecond=0),
        "author": entry.author and (entry.author.name or entry.author.url),
        "content": text_of(entry),
        "category": [html.unescape(tag) for tag in entry.category],  # publishers escape twice
        "files": same_files(entry),
        "reply": entry.in_reply_to,
    }
    if form in {"rss", "json"} and entry.updated == entry.published:
        found["updated"] = None
    return found


def expected(entry: Entry, form: str) -> dict[str, Any]:
    found = comparable(entry, form)
    found["updated"] = None if found["updated"] == found["published"] else found["updated"]
    author = entry.author
    found["author"] = author and (author.name or author.url)
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_document_comes_back_as_it_was(path: Path) -> None:
    """Through our own parser: title, dates, author, content, files, categories."""
    for form in ("rss", "atom", "json"):
        comes_back(of_source(path), form, written(path, form))


def comes_back(made: FeedDocument, form: str, text: bytes) -> None:
    """Everything that this format can hold is in the document again."""
    back = parse(text, ADDRESSES[form], FORMATS[form].content_type)
    assert len(back.entries) == len(made.entries)
    for there, here in zip(back.entries, made.entries, strict=True):
        wanted, found = expected(here, form), expected(there, form)
        wanted["content"] = text_shown(here)
        if form == "json":
            wanted.pop("reply"), found.pop("reply")
        if here.author is None or not (here.author.name or here.author.url):
            found.pop("author"), wanted.pop("author")  # Atom requires one
        if not here.content:
            found.pop("content"), wanted.pop("content")  # its replacement comes back as text
        assert found == wanted
        if here.name and not says_no_more(here.name, text_shown(here)):
            assert there.name == " ".join(here.name.split())
        if here.url or here.fallback_url:
            assert uri(there.url or there.fallback_url or "") == uri(here.url or here.fallback_url or "")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_feedparser_reads_the_same(path: Path) -> None:
    """Most programs in Python read feeds with this library."""
    made = of_source(path)
    for form in ("rss", "atom"):
        read = feedparser.parse(written(path, form), sanitize_html=False, resolve_relative_uris=False)
        assert not read.bozo, (form, read.get("bozo_exception"))
        assert len(read.entries) == len(made.entries)
        for found, entry in zip(read.entries, made.entries, strict=True):
            assert found.id == entry.guid
            assert datetime(*found.published_parsed[:6], tzinfo=UTC) == entry.published.astimezone(UTC).replace(
                microsecond=0
            )
            if entry.updated:
                assert datetime(*found.updated_parsed[:6], tzinfo=UTC) == entry.updated.astimezone(UTC).replace(
                    microsecond=0
                )
            if entry.name:
                # It treats a title that looks like markup as markup.
                name = html.unescape(found.title) if found.title_detail.type == "text/html" else found.title
                assert " ".join(name.split()) == " ".join(entry.name.split())
            if entry.author and entry.author.name:
                assert html.unescape(found.author).startswith(entry.author.name)
            tags = [html.unescape(tag.term) for tag in found.get("tags", ())]
            assert list(map(html.unescape, tags)) == [html.unescape(tag) for tag in entry.category]
            enclosed = [(one.href, one.type) for one in dict.get(found, "links", ()) if one.rel == "enclosure"]
            further = [(one["url"], one["type"]) for one in found.get("media_content", ())]
            assert sorted(enclosed + further) == sorted((uri(o.url), media_type(o)) for o in files(entry))
            if entry.content and entry.content.html:
                bodies = [content.value for content in found.get("content", ())] or [found.get("summary", "")]
                assert html_to_text(bodies[-1]).split() == html_to_text(shown(entry)).split()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_page_comes_back_as_it_was(path: Path) -> None:
    """A follower of the page gets the same as a reader of a feed."""
    made = of_source(path)
    back = parse(written(path, "html"), ADDRESSES["html"], FORMATS["html"].content_type)
    assert back.name == "Picks"
    assert len(back.entries) == len(made.entries)
    for there, here in zip(back.entries, made.entries, strict=True):
        assert (there.published, there.category) == (
            here.published and here.published.replace(microsecond=0),
            here.category,
        )
        if here.url:
            assert there.url == uri(here.url)
        if here.content:
            assert text_of(there) == text_of(here)
        if here.author and here.author.name:
            assert there.author is not None
            assert there.author.name == here.author.name
        if here.name and not says_no_more(here.name, text_of(here)):
            assert there.name == " ".join(here.name.split())


OTTO = Entry(
    type="cite",
    url="https://otto.example/1",
    author=Card(name="Otto <o>"),
    content=Content("<p>The tide is in.</p>", "The tide is in."),
)
MOLE = Card(name="Cafe Mole", url="https://mole.example/", street_address="1 Quay", locality="Husum")
STORM = Entry(type="event", name="Storm & tea", url="https://ann.example/storm")
RESPONSES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "repost": (
        {"repost_of": (OTTO.url,), "refs": {OTTO.url: OTTO}},
        ("Reposted", "Otto <o>", "The tide is in.", "https://otto.example/1"),
    ),
    "like": ({"like_of": ("https://b.example/2",)}, ("Liked", "https://b.example/2")),
    "bookmark": ({"bookmark_of": ("https://b.example/3",), "name": "Useful"}, ("Bookmarked", "https://b.example/3")),
    "quotation": (
        {"quotation_of": OTTO.url, "refs": {OTTO.url: OTTO}, "content": Content("<p>I quote.</p>", "I quote.")},
        ("Quotes", "Otto <o>", "The tide is in.", "https://otto.example/1", "I quote."),
    ),
    "rsvp": (
        {"in_reply_to": (STORM.url,), "rsvp": "yes", "refs": {STORM.url: STORM}},
        ("In reply to", "Storm & tea", "https://ann.example/storm", "RSVP: yes"),
    ),
    "check-in": ({"checkin": MOLE}, ("Checked in at", "Cafe Mole", "https://mole.example/", "1 Quay, Husum")),
    "review": (
        {"name": "Good", "review": Review("4.5", "5", Card(name="Moby & Dick", url="https://book.example/"))},
        ("Review of Moby & Dick", "https://book.example/", "Rating: 4.5 of 5"),
    ),
    "picture": (
        {"enclosure": (Enclosure("https://ann.example/p.jpg", "image/jpeg", title="A pier"),)},
        ("https://ann.example/p.jpg",),
    ),
    "event": (
        {"name": "Tea", "start": "2026-12-01T18:00:00+01:00", "end": "2026-12-01T20:00", "location": MOLE},
        ("When: 1 December 2026, 18:00 (UTC+01:00) – 1 December 2026, 20:00", "Where: Cafe Mole, 1 Quay, Husum"),
    ),
}


@pytest.mark.parametrize("form", sorted(RULES))
@pytest.mark.parametrize("kind", RESPONSES)
def test_a_post_says_who_what_where_and_when(kind: str, form: str) -> None:
    """In every format, with a link, if its own content doesn't say it; its title is no address."""
    fields, said = RESPONSES[kind]
    address = "https://ann.example/post"
    entry = Entry(guid=address, url=address, published=NOW, author=Card(name="Ann"), **fields)
    written = FORMATS[form].write(document(entry))
    RULES[form](written)
    found = parse(written, ADDRESSES[form], FORMATS[form].content_type).entries[0]
    if form == "html":
        html_of, text = written.decode(), html_to_text(written.decode().partition("<main")[2])
    else:
        assert found.content is not None
        html_of, text = found.content.html or "", found.content.text or ""
    for words in said:
        assert (words in html_of) if words.startswith("https:") else (words in " ".join(text.split())), words
    assert "example/post</title>" not in written.decode()
    if form != "html":
        assert shown(replace(entry, content=Content(html_of, text))) == html_of, "nothing is said twice"


def test_titles_are_the_same_in_all_formats() -> None:
    """A note's title is the beginning of its text; a title that repeats a body's beginning was left out when read."""
    address = "https://ann.example/post"
    note = Entry(guid=address, url=address, content=Content("<p>Update changeLog</p>", "Update changeLog"))
    made = document(note)
    assert b"<title>Update changeLog</title>" in FORMATS["rss"].write(made)
    assert b"<title>Update changeLog</title>" in FORMATS["atom"].write(made)
    assert json.loads(FORMATS["json"].write(made))["items"][0]["title"] == "Update changeLog"


def test_names_are_escaped_once() -> None:
    """Authors and categories of RSS are plain text, unlike titles and descriptions."""
    entry = Entry(guid="urn:x:1", name="One", author=Card(name="Q&A <q@a.example>"), category=("R&D",))
    item = ET.fromstring(FORMATS["rss"].write(document(entry))).find("channel/item")
    assert item is not None
    assert item.findtext("{http://purl.org/dc/elements/1.1/}creator") == "Q&A <q@a.example>"
    assert item.findtext("category") == "R&D"


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("https://a.example/x[1].mp3?y=[z]", "https://a.example/x%5B1%5D.mp3?y=%5Bz%5D"),
        ("https://bücher.example/ü?ö#ä", "https://xn--bcher-kva.example/%C3%BC?%C3%B6#%C3%A4"),
        ("https://a.example/100%/a%20b|c", "https://a.example/100%25/a%20b%7Cc"),
        ("http://[::1]:8080/a?b=c&d#e", "http://[::1]:8080/a?b=c&d#e"),
        ("tag:a.example,2026:[1]", "tag:a.example,2026:%5B1%5D"),
        ("https://a.example/a'b(c)*~!$;,:@", "https://a.example/a'b(c)*~!$;,:@"),
    ],
)
def test_addresses_are_uris(address: str, written: str) -> None:
    """As RFC 3986 allows them, also those of browsers and IRIs."""
    assert uri(address) == written
    assert uri(written) == written


def test_an_episode_has_what_podcast_apps_show() -> None:
    """Transcript, chapters of both kinds, people, numbers, other files, support, warning; our parser reads them."""
    podcast = Podcast(
        season="2",
        season_name="Storms",
        episode="7",
        episode_type="full",
        explicit=True,
        chapters="https://pod.example/7.json",
        chapter=(PodcastChapter(0.0, "Intro"), PodcastChapter(3725.5, "Gale", "https://pod.example/gale")),
        transcript=(Transcript("https://pod.example/7.vtt", "text/vtt", "en"),),
        person=(Participant("Ann", "guest", "https://ann.example/", "https://ann.example/a.png"),),
        alternate=(Enclosure("https://pod.example/7.opus", "audio/opus", 9, title="Small"),),
        funding=(Support("https://pod.example/pay", "Support us"),),
    )
    file = Enclosure("https://pod.example/7.mp3", "audio/mpeg", 5, 4000)
    husum = Card(name="Husum", latitude="54.47", longitude="9.05")
    entry = Entry(
        guid="urn:x:7", url="https://pod.example/7", name="Gale", enclosure=(file,), podcast=podcast, location=husum
    )
    for form in ("rss", "atom", "json"):
        written = FORMATS[form].write(document(entry))
        RULES[form](written)
        back = parse(written, ADDRESSES[form], FORMATS[form].content_type).entries[0]
        assert back.podcast == podcast, form
        assert back.location is not None
        assert (back.location.name, back.location.latitude) == ("Husum", "54.47")
        if form != "json":
            assert not feedparser.parse(written).bozo


def test_a_json_feed_has_the_names_of_items_for_an_episode() -> None:
    """Those of `_podcast` in the API, with URIs, and the place; other posts have no such object."""
    file = Enclosure("https://pod.example/7.mp3", "audio/mpeg")
    podcast = Podcast(season_name="Storms", chapters="https://pod.example/ä.json", person=(Participant("Ann"),))
    entries = (
        Entry(guid="urn:x:7", enclosure=(file,), podcast=podcast, location=Card(latitude="54.47", longitude="9.05")),
        Entry(guid="urn:x:8", location=Card(name="Husum")),
    )
    episode, post = json.loads(FORMATS["json"].write(document(*entries)))["items"]
    assert episode["_podcast"] == {
        "season-name": "Storms",
        "chapters": "https://pod.example/%C3%A4.json",
        "person": [{"name": "Ann"}],
        "location": {"type": "card", "latitude": "54.47", "longitude": "9.05"},
    }
    assert "_podcast" not in post


def test_numbers_that_itunes_refuses_are_only_those_of_podcasting() -> None:
    """iTunes wants whole numbers from 1; half an episode has its number in the other element."""
    entry = Entry(guid="urn:x:7", podcast=Podcast(season="0", episode="3.5"))
    written = FORMATS["rss"].write(document(entry))
    assert b"<itunes:season>" not in written
    assert b"<itunes:episode>" not in written
    back = parse(written, ADDRESSES["rss"], FORMATS["rss"].content_type).entries[0]
    assert back.podcast == entry.podcast


ODD_BODY = """<p title='href="ä"'>src="ü [1]" <a href="https://a.example/ä [1]?a=1&amp;b=ö#ü">&auml; ä</a>
<img src="https://a.example/%zz%41" srcset="https://a.example/ä 640w, https://a.example/b,c 2x" alt="ä href=" title="ä">
<video poster="https://user:key@münchen.example/ü"><source src="https://a.example/fine?a=1&amp;b=%20#c"></video>
<q cite="https://a.example/&quot;&gt;x">ä</q><a href="#n1-ä">1</a><a href="mailto:ann@a.example">2</a></p>"""
VALID = {
    "https://a.example/ä [1]?a=1&amp;b=ö#ü": "https://a.example/%C3%A4%20%5B1%5D?a=1&amp;b=%C3%B6#%C3%BC",
    "https://a.example/%zz%41": "https://a.example/%25zz%41",
    "https://a.example/ä 640w": "https://a.example/%C3%A4 640w",
    "https://user:key@münchen.example/ü": "https://user:key@xn--mnchen-3ya.example/%C3%BC",
    "https://a.example/&quot;&gt;x": "https://a.example/%22%3Ex",
    "#n1-ä": "#n1-%C3%A4",
}
VALID_BODY = ODD_BODY
for odd, valid in VALID.items():
    VALID_BODY = VALID_BODY.replace(odd, valid)


def test_addresses_inside_bodies_are_uris_and_nothing_else_changes() -> None:
    """In all formats; text that looks like an attribute, other attributes and valid addresses stay as they are."""
    entry = Entry(guid="urn:x:1", url="https://a.example/ä", published=NOW, content=Content(ODD_BODY, "x"))
    rss, atom, items, page = (FORMATS[form].write(document(entry)).decode() for form in ("rss", "atom", "json", "html"))
    assert ET.fromstring(rss).findtext("channel/item/description") == VALID_BODY
    assert ET.fromstring(atom).findtext(f"{ATOM}entry/{ATOM}content") == VALID_BODY
    assert json.loads(items)["items"][0]["content_html"] == VALID_BODY
    assert VALID_BODY in page
    assert 'href="https://a.example/%C3%A4"' in page


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_document_has_an_address_that_is_no_uri(path: Path) -> None:
    """Of links, pictures, players and quotations, inside bodies and outside of them."""
    page = written(path, "html").decode()
    bodies = [shown(entry) for entry in of_source(path).entries]
    for text in (page, *bodies):
        for tag in re.findall(r"<[a-z][^<>]*>", text):
            for value in re.findall(r'\s(?:href|src|poster|cite)="([^"]*)"', tag):
                assert re.fullmatch(
                    r"(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=\[\]-]|%[0-9A-Fa-f]{2})*", html.unescape(value)
                ), value


@pytest.mark.parametrize(("form", "write"), {"rss": write_rss, "atom": write_atom, "json": write_jsonfeed}.items())
def test_programs_write_what_they_picked(form: str, write: Callable[[Feed], bytes]) -> None:
    """Entries of two feeds with the same guid stay two, in their order, with the ids that they have each time."""
    entries = [
        Entry(
            guid="1", name=f"The {name}", enclosure=(Enclosure(f"https://{name}.example/1.mp3"),), fallback_url=address
        )
        for name, address in (("tide", "https://tide.example/1.mp3"), ("gale", "https://gale.example/1.mp3"))
    ]
    kept = Entry(guid="tag:ann.example,2026:1", url="https://ann.example/1", published=datetime(2026, 11, 23, 5))
    feed = Feed(ADDRESSES[form], "rss", "Picks", "https://ann.example/", entries=(*entries, kept, kept))
    written = write(feed)
    RULES[form](written)
    back = parse(written, feed.url, FORMATS[form].content_type)
    assert (back.name, back.home) == ("Picks", "https://ann.example/")
    assert [entry.name for entry in back.entries][:2] == ["The tide", "The gale"]
    guids = [entry.guid for entry in back.entries]
    assert len(set(guids)) == 4
    assert guids[2] == kept.guid
    assert write(feed) == written
    RULES[form](write(Feed(ADDRESSES[form], "rss")))


WRONG: dict[str, Any] = {"post": {"title": "Ebb"}, "date": "2026-11-24", "body": "<p>Low water"}


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ((WRONG["post"],), "entries[0] is dict, {'title': 'Ebb'}: expected Entry"),
        ((Entry(), Entry(published=WRONG["date"])), "entries[1].published is str, '2026-11-24': expected datetime"),
        ((Entry(content=WRONG["body"]),), "entries[0].content is str, '<p>Low water': expected Content"),
    ],
)
def test_values_of_other_types_are_named(entries: tuple[Entry, ...], problem: str) -> None:
    """A program that passes text for a date learns which field it was, and what was expected."""
    for write in (write_rss, write_atom, write_jsonfeed):
        with pytest.raises(TypeError, match=re.escape(problem)):
            write(Feed("https://ann.example/picks", "rss", entries=entries))


@pytest.mark.parametrize("form", sorted(RULES))
def test_control_characters_are_no_title(form: str) -> None:
    """Characters that XML forbids, alone in a title or a name: the document still has the format's required fields."""
    empty = Entry(guid="urn:uuid:9f2c6f2e-6f0f-4c62-9d0c-000000000002", name="\x00", author=Card(name="\x01 "))
    RULES[form](FORMATS[form].write(document(empty)))


def test_titles_and_descriptions_are_text_in_rss() -> None:
    """RSS readers treat title and description as HTML: both show the typed text, without markup."""
    typed = "Mine <img src=x onerror=alert(1)> & yours"
    for given in ({"title": typed}, {"description": typed}):
        channel = ET.fromstring(FORMATS["rss"].write(replace(document(), **given))).find("channel")
        assert channel is not None
        assert html.escape(typed, quote=False) in {channel.findtext("title"), channel.findtext("description")}
        assert typed not in {channel.findtext("title"), channel.findtext("description")}
