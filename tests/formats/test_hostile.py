"""For any input `parse` returns a feed or a ParseError, and no code in a feed can run."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from microsub.base.errors import ParseError
from microsub.base.urls import EXECUTABLE
from microsub.formats.entry_id import common_identity, identities
from microsub.formats.feed_links import discover
from microsub.formats.parse import parse
from microsub.formats.wire import encode, to_wire
from microsub.model.jf2 import Feed
from tests.fuzz.joints import harm
from tests.support import examples

URL = "https://reader.example/feed"
URL_FIELDS = {
    "url", "photo", "video", "audio", "syndication", "like-of", "repost-of", "bookmark-of", "follow-of", "in-reply-to",
    "featured", "quotation-of",
}  # fmt: skip
LINK_SCHEMES = {"http", "https", "mailto", "tel", "xmpp", "irc", "ircs", "gemini", "magnet", "geo", "sms", "matrix"}
SCHEMES = [
    *(
        "javascript:",
        "JaVaScRiPt:",
        "java\nscript:",
        "\x01javascript:",
        "\ufeffjavascript:",
        "jav\tascript:",
        " javascript:",
    ),
    *(
        "&#106;avascript:",
        "java&#x09;script:",
        "javascript&colon;",
        "vbscript:",
        "data:text/html,",
        "data:image/svg+xml,",
    ),
    *("//", "/", "http:", "https:///", "feed:", "https://a.example/?x=", "#", "//[", "https://["),
]
urls = st.builds(lambda scheme, rest: scheme + rest, st.sampled_from(SCHEMES), st.text(max_size=12))
attributes = st.sampled_from(["href", "src", "srcset", "onclick", "style", "poster", "data-src", "cite", "xlink:href",
                              "formaction", "action", "background", "width", "title", "alt", "srcdoc"])  # fmt: skip
tags = st.sampled_from(["a", "img", "iframe", "script", "style", "svg", "math", "video", "source", "object", "embed",
                        "form", "p", "div", "noscript", "template", "textarea", "title", "b", "table", "td", "select",
                        "base", "meta", "xmp", "plaintext", "mtext", "mglyph", "annotation-xml", "desc"])  # fmt: skip


@st.composite
def markup(draw: st.DrawFn) -> str:
    """HTML that tries to get code past the sanitiser."""
    pieces = []
    for _ in range(draw(st.integers(1, 8))):
        tag = draw(tags)
        pairs = draw(st.lists(st.tuples(attributes, urls), max_size=3))
        quote = draw(st.sampled_from(['"', "'", ""]))
        quoted = "".join(f" {name}={quote}{value}{quote}" for name, value in pairs)
        pieces.append(draw(st.sampled_from([f"<{tag}{quoted}>", f"</{tag}>", f"<{tag}{quoted}/>", "<!--", "-->"])))
        pieces.append(draw(st.text(max_size=6)))
    return "".join(pieces)


def assert_harmless(feed: Feed) -> None:
    """No field and no attribute of `feed` has a value that is unsafe in a reader app."""
    for card in [feed.author] if feed.author else []:
        assert_safe_address(card.url)
    for address in (feed.home, feed.photo, feed.hub, feed.self_url):
        assert_safe_address(address)
    for entry in feed.entries:
        assert entry.author is not None
        assert entry.post_type
        assert encode(entry, item_id="1", source="2").startswith(b'{"type":')
        assert_wire(to_wire(entry))
        common_identity(entry)
    assert len(identities(feed.entries)) == len(feed.entries)


def assert_wire(value: Any, field: str = "") -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if field == "refs":
                assert_safe_address(key)
            if key == "html":
                assert_clean(inner)
            else:
                assert_wire(inner, key)
    elif isinstance(value, list):
        for inner in value:
            assert_wire(inner, field)
    elif field in URL_FIELDS:
        assert_safe_address(value)


def assert_safe_address(url: str | None) -> None:
    if url is not None:
        assert urlsplit(url).scheme in {"http", "https"}, url
        assert urlsplit(url).hostname, url
        assert not any(char in url for char in '"<>\\ \n\t'), url


INSIDE = re.compile(r"#n[0-9a-f]{8}-[^\s]{1,100}\Z")
"""A link to a place in the same body: its id can't be one of the page that shows it."""


def assert_clean(html: str) -> None:
    tree = LexborHTMLParser(html)
    assert tree.body is not None
    assert not tree.css("script,style,form,input,object,embed,base,meta,link,svg,template,frame,frameset")
    for node in tree.body.css("*"):
        for name, value in node.attributes.items():
            assert not name.startswith("on"), html
            assert name not in {"style", "srcdoc", "formaction", "background", "xlink:href", "action"}, html
            scheme = (value or "").split(":")[0].lower()
            if name in {"src", "poster", "cite"}:
                assert scheme in {"http", "https"}, html
            if name == "href" and not INSIDE.match(value or ""):
                assert scheme in LINK_SCHEMES, html
            if name == "id":
                assert INSIDE.match(f"#{value}"), html
            assert name != "name", html
            if name == "srcset":
                assert all(part.split()[0].startswith("http") for part in (value or "").split(", ")), html
    for frame in tree.css("iframe"):
        assert "evil" not in (frame.attributes["src"] or "")


def parse_or_none(body: bytes, content_type: str | None = None) -> Feed | None:
    try:
        return parse(body, URL, content_type)
    except ParseError:
        return None


@given(
    st.binary(max_size=400),
    st.sampled_from([None, "text/html", "application/rss+xml; charset=utf-16", "x;charset=zlib"]),
)
@settings(max_examples=examples(300), deadline=None)
def test_any_bytes_are_a_feed_or_a_parse_error(body: bytes, content_type: str | None) -> None:
    """Random bytes never raise anything but ParseError, whatever type HTTP declares."""
    if feed := parse_or_none(body, content_type):
        assert_harmless(feed)
    discover(body, URL, content_type, None)


@given(st.lists(urls, min_size=6, max_size=6), markup())
@settings(max_examples=examples(150), deadline=None)
def test_rss_brings_in_no_code(found: list[str], html: str) -> None:
    """No link, guid, enclosure, image or body of an RSS document brings in code."""
    link, guid, enclosure, image, thumbnail, home = (
        u.replace("<", "").replace("&", "&amp;").replace('"', "") for u in found
    )
    document = f"""<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel><title>t</title>
      <link>{home}</link><image><url>{image}</url></image><item>
      <title>{html.replace("<", "&lt;")}</title><link>{link}</link>
      <guid>{guid}</guid><enclosure url="{enclosure}" type="image/png"/><media:thumbnail url="{thumbnail}"/>
      <category>{link}</category><author>{guid}</author>
      <description><![CDATA[{html.replace("]]>", "")}]]></description></item></channel></rss>"""
    if feed := parse_or_none(document.encode("utf-8", "replace")):
        assert_harmless(feed)


@given(st.lists(urls, min_size=6, max_size=6), markup())
@settings(max_examples=examples(150), deadline=None)
def test_h_entries_bring_in_no_code(found: list[str], html: str) -> None:
    """No property of an h-entry brings in code."""
    link, photo, reply, author, uid, category = (u.replace('"', "") for u in found)
    page = f"""<div class="h-entry"><a class="u-url" href="{link}">x</a><img class="u-photo" src="{photo}">
      <a class="u-in-reply-to" href="{reply}"></a><a class="p-author h-card" href="{author}">me</a>
      <a class="u-uid" href="{uid}"></a><a class="u-category" href="{category}"></a>
      <div class="e-content">{html}</div></div>"""
    if feed := parse_or_none(page.encode("utf-8", "replace")):
        assert_harmless(feed)
        assert not any(EXECUTABLE.match(word or "") for e in feed.entries for word in (e.uid, *e.category))


def rss(body: str, extra: str = "") -> bytes:
    return (
        '<rss version="2.0"><channel><title>t</title><item><title>x</title>'
        f"<description><![CDATA[{body}]]></description>{extra}</item></channel></rss>"
    ).encode()


LONG = 60_000
SLOW = {
    "nested": rss("<div>" * LONG),
    "closed nesting": rss("<div>" * LONG + "</div>" * LONG),
    "formatting": rss("<b><a>" * (LONG // 2)),
    "breaks": rss("<br>" * LONG + "<b><br>" * (LONG // 4)),
    "styles": rss("<img " + " style=" * LONG),
    "noscript": rss("<noscript>" * (LONG // 2)),
    "cdata": b"<rss><channel><item><title>&" + b"<![CDATA[" * LONG,
    "comments": b"<rss><channel><item><title>&" + b"<!--" * LONG,
    "address": rss("x", f"<author>{'a.' * LONG}</author>"),
    "date": rss("x", f"<pubDate>{'1 ' * LONG}</pubDate>"),
    "title": f"<rss><channel><title>{'&lt;script&gt;' * (LONG // 10)}&lt;/b&gt;</title></channel></rss>".encode(),
    "page": b'<body class="h-feed">' + b"<div>" * (LONG // 2),
    "items": b'<div class="h-entry"><a class="p-author" href="/a">x</a></div>' * 500,
    "entities": b'<!DOCTYPE x [<!ENTITY a "'
    + b"x" * 9999
    + b'">]><rss><channel><title>'
    + b"&a;" * LONG
    + b"</title></channel></rss>",
    "json": b'{"version":"https://jsonfeed.org/version/1","items":' + b"[" * LONG,
}


@pytest.mark.timeout(30)  # with a quadratic parser they take between half a minute and several minutes
@pytest.mark.parametrize("name", SLOW)
def test_documents_have_a_bounded_time(name: str) -> None:
    """Documents whose cost could grow with the square of their size are read, or refused, in a few seconds."""
    parse_or_none(SLOW[name])


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("Tide\u202e\u2066 log\u2069", "Tide log"),
        ("e" + "\u0301" * 900 + "bb", "e" + "\u0301" * 8 + "bb"),
        ("Vi\u0323\u0302t \U0001f469\u200d\U0001f680\ufe0f " + "\u2026" * 20, None),
        ("\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd\u200f!", None),
    ],
    ids=["marks that reverse what follows", "accents that reach other lines", "usual accents", "another script"],
)
def test_a_name_stays_in_its_line(name: str, kept: str | None) -> None:
    item = f"<item><title>{name}</title><link>https://a.example/1</link></item>"
    feed = parse(f"<rss><channel><title>{name}</title>{item}</channel></rss>".encode(), "text/xml", URL)
    assert (feed.name, feed.entries[0].name) == (kept or name, kept or name)
    link = f'<link rel=alternate type="application/rss+xml" href=/f title="{name}">'
    assert [one.title for one in discover(link.encode(), URL, "text/html", None)] == [kept or name]


def test_entities_are_not_expanded() -> None:
    """An entity that a document declares stays a name in the text."""
    feed = parse(
        b'<!DOCTYPE rss [<!ENTITY a "secret">]><rss version="2.0"><channel><title>x &a; y</title></channel></rss>',
        URL,
        None,
    )
    assert feed.name == "x &a; y"


def test_a_body_that_names_a_file_isnt_opened() -> None:
    """Bytes that look like a path or a URL are only bytes."""
    for body in (b"/etc/hostname", b"file:///etc/hostname", b"http://127.0.0.1/"):
        assert parse_or_none(body) is None


PRIVATE = "https://blog.example/feed?format=full&key=SECRET"
AS_XML = PRIVATE.replace("&", "&amp;")
OF_PRIVATE_FEEDS = {
    "page": f"""<title>Ann</title><div class="h-feed"><a class="p-author h-card" href="">Ann</a>
      <div class="h-entry"><a class="u-url" href="#one">1</a>
      <div class="e-content">One <a href="#two">two</a></div></div>
      <div class="h-entry" id="two"><p class="e-content">Two, see {AS_XML}.</p></div></div>""",
    "page-beside": f"""<base href="{AS_XML}"><div class="h-feed">
      <div class="h-entry"><a class="u-url" href="#one">1</a><a class="u-in-reply-to" href="#two">2</a></div></div>""",
    "rss": f"""<rss version="2.0"><channel><title>Ann</title><link>{AS_XML}</link>
      <item><title>One</title><description>&lt;a href="#x"&gt;x&lt;/a&gt;</description></item>
      <item><title>Two</title><link>{AS_XML}#two</link></item></channel></rss>""",
    "atom": f"""<feed xmlns="http://www.w3.org/2005/Atom"><title>Ann</title><link href=""/>
      <author><name>Ann</name><uri>#me</uri></author><entry><id>{AS_XML}#one</id><title>One</title><link href="#one"/>
      <content type="html">&lt;a href=""&gt;here&lt;/a&gt;</content></entry></feed>""",
    "json": f"""{{"version": "https://jsonfeed.org/version/1.1", "home_page_url": "{PRIVATE}", "items": [
      {{"id": "1", "content_html": "<a href='#x'>x</a>"}}, {{"id": "2", "url": "#two", "content_text": "Two"}}]}}""",
}


@pytest.mark.parametrize("name", OF_PRIVATE_FEEDS)
def test_the_key_of_a_private_feed_stays_out_of_its_posts(name: str) -> None:
    """References to the page itself are written without the key, because posts are passed on."""
    feed = parse(OF_PRIVATE_FEEDS[name].encode(), PRIVATE, None)
    assert feed.entries
    assert "SECRET" not in repr((feed.entries, feed.home, feed.author, identities(feed.entries)))
    assert "https://blog.example/feed?format=full" in repr(feed.entries), "the rest of the address stays"
    assert feed.url == PRIVATE, "it is asked at its own address"


KEY = "9f86d081884c7d659a2feaa0c55ad015"


@pytest.mark.parametrize("path", [f"/feed/{KEY}/", f"/feed/{KEY}.rss", f"/feed/{KEY}/rss?format=full"])
@pytest.mark.parametrize("name", [name for name in OF_PRIVATE_FEEDS if "page" not in name])
def test_posts_dont_contain_the_key_of_a_private_feed(name: str, path: str) -> None:
    """Podcasts and calendars have it there. The part after the key is removed too."""
    url = f"https://blog.example{path}"
    document = OF_PRIVATE_FEEDS[name].replace(AS_XML, url).replace(PRIVATE, url)
    feed = parse(document.encode(), url, None)
    assert feed.entries
    assert KEY not in repr((feed.entries, feed.home, feed.author, identities(feed.entries)))
    assert "https://blog.example/feed/" in repr(feed.entries), "the rest of the address stays"
    assert feed.url == url, "it is asked at its own address"


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?u=9f86d081884c7d65", ""), ("?9f86d081884c7d65", ""), ("?access_token=x&p=2", "?p=2"),
        ("?option=com_blog&id=5", "?option=com_blog&id=5"), ("?list=UC9f86d081884c7d65", "?list=UC9f86d081884c7d65"),
    ],
)  # fmt: skip
def test_fragments_of_posts_are_no_secrets(query: str, left: str) -> None:
    """A post at a fragment of a page keeps its address, whatever the page's path looks like."""
    page = b'<div class="h-feed"><div class="h-entry"><a class="u-url" href="#one">1</a></div></div>'
    for path in ("", f"{KEY}/"):
        entry = parse(page, f"https://blog.example/{path}{query}", None).entries[0]
        assert entry.url == f"https://blog.example/{path}{left}#one"


def test_links_to_files_keep_their_keys() -> None:
    """A private podcast needs them, and a post's own address may have one."""
    item = """<rss version="2.0"><channel><item><link>https://blog.example/one?key=SECRET</link>
      <enclosure url="https://blog.example/1.mp3?key=SECRET"/></item></channel></rss>"""
    entry = parse(item.encode(), PRIVATE, None).entries[0]
    assert entry.url == "https://blog.example/one?key=SECRET"
    assert entry.enclosure[0].url == "https://blog.example/1.mp3?key=SECRET"


@pytest.mark.parametrize("mark", ['"', '">', "'", "</a", "<a", "&quot;"])
def test_quotes_in_a_private_address_break_no_markup(mark: str) -> None:
    """A list of feeds may name such an address, and its publisher knows it."""
    link = '<a href="https://blog.example/feed?key=SECRET" title=" onmouseover=alert(1) x=">x</a>'
    body = f'{link}<img src="https://blog.example/feed?key=SECRET" alt=" onerror=alert(1) x=">'
    item = f"<rss><channel><item><description><![CDATA[{body}]]></description></item></channel></rss>"
    content = parse(item.encode(), f"https://blog.example/feed?key=SECRET{mark}", None).entries[0].content
    assert content is not None
    assert content.html is not None
    assert harm(content.html) is None
