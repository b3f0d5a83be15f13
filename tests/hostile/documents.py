"""Documents that attack their readers: entities, depth, size, code in every field."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence

from tests.hostile.bodies import GOOD, XML
from tests.hostile.case import Case, Check, Outcome
from tests.hostile.machine import GROWTH_OF_ENDED, GROWTH_OF_WIDE_TEXT
from tests.hostile.publisher import Asked
from tests.support.polling import dated, rss

MIB = 1024 * 1024
FULL = 10 * MIB - 1000
GZIP = "Content-Encoding: gzip"
HTML = "Content-Type: text/html; charset=utf-8"
JSON = "Content-Type: application/feed+json"


def small(document: Callable[[], bytes], health: str = "", says: str = "", *, kind: str = XML, **more: object) -> Case:
    """A case with a compressed document, which costs the publisher kilobytes. It is built on request."""

    async def act(visit: Asked) -> None:
        await visit.reply(gzip.compress(document(), 5), kind, GZIP)

    return Case(act, health, says, **more)  # type: ignore[arg-type]


def channel(inside: bytes) -> bytes:
    return b'<rss version="2.0"><channel><title>t</title>' + inside + b"</channel></rss>"


def item(inside: bytes) -> bytes:
    return channel(b"<item><title>x</title><guid>1</guid>" + inside + b"</item>")


def fill(unit: bytes, size: int = FULL) -> bytes:
    return unit * (size // len(unit))


def declared(declarations: str, text: str) -> bytes:
    return f"<!DOCTYPE rss [{declarations}]>".encode() + item(f"<description>{text}</description>".encode())


LAUGHS = '<!ENTITY l0 "lol">' + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 11))


def feed(items: Sequence[dict[str, object]], **more: object) -> bytes:
    return json.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "t", "items": items, **more}).encode()


def says_nothing_of(*words: str) -> Check:
    def check(outcome: Outcome) -> None:
        for word in words:
            assert word not in outcome.text

    return check


def asked_nothing_else(outcome: Outcome) -> None:
    assert {visit.target for visit in outcome.site.asked} <= {"/feed", "/good"}


def stays_small(outcome: Outcome) -> None:
    """Posts stay small enough for readers to load, and so does the feed's record."""
    assert all(len(post) < 2 * MIB for post in outcome.posts)
    feed = outcome.feed
    told = (feed.title, feed.photo, feed.home, feed.description, feed.hub, feed.self_url, feed.etag, feed.last_error)
    assert sum(len(value or "") for value in told) < 20_000


EVIL = (
    "<script>alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)><a href='javascript:alert(1)'>x</a>"
    "<iframe srcdoc='<script>alert(1)</script>'></iframe><form action='javascript:alert(1)'><button>x</button></form>"
    "<style>@import 'javascript:alert(1)'</style>"
    "<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>"
    "<object data='data:text/html,<script>alert(1)</script>'></object><base href='javascript:alert(1)//'>"
)
TEXTS = {"name", "summary", "category", "text", "title", "html"}
_CODE = re.compile(
    r"(?i)<\s*(?:script|style|svg|math|object|form|base)\b|\son\w+\s*=|(?:java|vb)script:|data:text/html"
)


def nothing_runs(outcome: Outcome) -> None:
    assert outcome.posts
    feed = outcome.feed
    for text in (feed.title, feed.photo, feed.home, feed.hub, feed.self_url):
        assert not (text or "").lower().lstrip().startswith(("javascript:", "data:"))
    for post in outcome.posts:
        found = json.loads(post)
        assert not _CODE.search(json.dumps(found.get("content", {}).get("html", "")))
        assert not _CODE.search(json.dumps(without_texts(found)))


def without_texts(value: object) -> object:
    """The fields of an item other than plain text, which is shown unchanged."""
    if isinstance(value, dict):
        return {key: without_texts(inner) for key, inner in value.items() if key not in TEXTS}
    return [without_texts(inner) for inner in value] if isinstance(value, list) else value


def in_rss() -> bytes:
    text, link = EVIL.replace("&", "&amp;").replace("<", "&lt;"), "javascript:alert(1)"
    return f"""<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/" xmlns:atom="http://www.w3.org/2005/Atom"
      xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd" xmlns:content="http://purl.org/rss/1.0/modules/content/">
      <channel><title>{text}</title><link>{link}</link><description>{text}</description><image><url>{link}</url></image>
      <atom:link rel="hub" href="{link}"/><atom:link rel="self" href="{link}"/><itunes:image href="{link}"/>
      <item><title>{text}</title><link>{link}</link><guid>{link}</guid><author>{text}</author><category>{text}</category>
      <enclosure url="{link}" type="audio/mpeg" length="1"/><media:thumbnail url="{link}"/><comments>{link}</comments>
      <media:content url="{link}" medium="image"/><source url="{link}">{text}</source><pubDate>{text}</pubDate>
      <description>{text}</description><content:encoded><![CDATA[{EVIL}]]></content:encoded></item></channel></rss>""".encode()


def in_html() -> bytes:
    return f"""<body class="h-feed"><h1 class="p-name">{EVIL}</h1><div class="h-entry"><a class="u-url u-uid"
      href="javascript:alert(1)">x</a><img class="u-photo" src="data:text/html,x"><a class="p-author h-card"
      href="javascript:alert(1)">me</a><a class="u-like-of" href="vbscript:x"></a><p class="p-name">{EVIL}</p>
      <div class="e-content">words {EVIL}</div></div>""".encode()


def in_json() -> bytes:
    link = "javascript:alert(1)"
    author = {"name": EVIL, "url": link, "avatar": link}
    post = {"id": "1", "url": link, "external_url": link, "title": EVIL, "content_html": "words" + EVIL, "image": link}
    post |= {"summary": EVIL, "banner_image": link, "tags": [EVIL], "authors": [author]}
    post |= {"attachments": [{"url": link, "mime_type": EVIL, "title": EVIL}]}
    return feed([post], icon=link, home_page_url=link, feed_url=link, hubs=[{"url": link}], description=EVIL)


LONG = "x" * (2 * MIB)

CASES = {
    "a-title-of-50-mb": small(lambda: channel(b"<item><title>" + b"x" * 50_000_000 + b"</title></item>"), "too_large"),
    "a-title-of-10-mb": small(
        lambda: channel(b"<item><title>" + b"x" * FULL + b"</title></item>"), posts=1, check=stays_small
    ),
    "a-body-of-10-mb": small(
        lambda: item(b"<description>" + fill(b"words ") + b"</description>"), posts=1, check=stays_small
    ),
    "a-body-of-emoji": small(
        lambda: item(b"<description>" + fill("\U0001f600".encode()) + b"</description>"),
        posts=1,
        check=stays_small,
        growth=GROWTH_OF_WIDE_TEXT,
    ),
    "a-million-tags-in-a-body": small(
        lambda: item(b"<description><![CDATA[" + fill(b"<b>x</b>") + b"]]></description>"),
        posts=1,
        check=stays_small,
    ),
    "links-upon-a-long-base": small(
        lambda: (
            b'<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://a.test/'
            + b"b/" * 4000
            + b'"><title>t</title><entry><id>1</id><content type="html">'
            + b"&lt;img src=a&gt;" * 20_000
            + b"</content></entry></feed>"
        ),
        posts=1,
        check=stays_small,
    ),
    "billion-laughs": small(lambda: declared(LAUGHS, "&l10;"), posts=1, check=says_nothing_of("lollol")),
    "quadratic-entities": small(
        lambda: declared(f'<!ENTITY a "{"x" * 50_000}">', "&a;" * 50_000), posts=1, check=says_nothing_of("xxxx")
    ),
    "entity-from-a-file": small(
        lambda: declared('<!ENTITY a SYSTEM "file:///etc/passwd">', "&a;"), posts=1, check=says_nothing_of("root:")
    ),
    "entity-from-the-web": small(
        lambda: declared('<!ENTITY a SYSTEM "http://elsewhere.test/secret">', "&a;"), posts=1, check=asked_nothing_else
    ),
    "parameter-entity": small(
        lambda: declared('<!ENTITY % a SYSTEM "http://elsewhere.test/secret"> %a;', "x"),
        posts=1,
        check=asked_nothing_else,
    ),
    "external-dtd": small(
        lambda: b'<!DOCTYPE rss SYSTEM "http://elsewhere.test/secret.dtd">' + item(b""),
        posts=1,
        check=asked_nothing_else,
    ),
    "inclusion-and-stylesheet": small(
        lambda: (
            b'<?xml-stylesheet href="http://elsewhere.test/x"?>'
            + item(b'<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd" parse="text"/>')
        ),
        posts=1,
        check=says_nothing_of("root:"),
    ),
    "deep-xml": small(lambda: item(fill(b"<a>", 3 * MIB)), "parse"),
    "deep-html-in-a-body": small(
        lambda: item(b"<description><![CDATA[" + b"<div>" * 200_000 + b"deep]]></description>"), posts=1
    ),
    "deep-page": small(lambda: b'<div class="h-entry">' + b"<div>" * 50_000, "parse", "deeply", kind=HTML),
    "deep-json": small(
        lambda: b'{"version":"https://jsonfeed.org/version/1","items":' + b"[" * 100_000, "parse", kind=JSON
    ),
    "ten-thousand-entries": small(
        lambda: rss([(f"e{number}", f"Entry {number}", None) for number in range(10_000)]), posts=100
    ),
    "400-thousand-empty-entries": small(lambda: channel(fill(b"<item/>", 3 * MIB)), "parse", "elements"),
    "a-million-objects": small(
        lambda: b'{"version":"https://jsonfeed.org/version/1","items":[' + fill(b"{},", 3 * MIB) + b"{}]}",
        "parse",
        "objects",
        kind=JSON,
    ),
    "a-million-paragraphs": small(lambda: b'<div class="h-entry">' + fill(b"<p>", 3 * MIB), "parse", "tags", kind=HTML),
    "a-hundred-thousand-attributes": small(
        lambda: item(b"<a " + b" ".join(b'a%d=""' % number for number in range(100_000)) + b"/>"), "parse", "attributes"
    ),
    "ten-megabytes-of-lt": small(
        lambda: channel(fill(b"<")), "parse", "could not be parsed in", spins=True, growth=GROWTH_OF_ENDED
    ),
    "a-thousand-enclosures": small(
        lambda: item(fill(b'<enclosure url="http://a.test/b.mp3" type="audio/mpeg"/>', MIB)), posts=1, check=stays_small
    ),
    "long-json-strings": small(
        lambda: feed(
            [
                {
                    "id": LONG,
                    "title": LONG,
                    "summary": LONG,
                    "url": "http://a.test/" + LONG,
                    "tags": ["t" + str(number) for number in range(5000)],
                }
            ],
            description=LONG[: MIB // 2],
        ),
        posts=1,
        kind=JSON,
        check=stays_small,
    ),
    "a-feed-with-a-long-name": small(
        lambda: feed([], title=LONG, icon="http://a.test/" + LONG), kind=JSON, check=stays_small
    ),
    "nul-bytes": small(lambda: GOOD.replace(b"Post", b"Po\0st"), posts=3, check=says_nothing_of("\0", "\\u0000")),
    "only-nul-bytes": small(lambda: bytes(MIB), "parse"),
    "invalid-utf-8": small(lambda: GOOD.replace(b"Post", b"Po\xff\xfe\x80st"), posts=3),
    "lone-surrogates": small(lambda: GOOD.replace(b"Post", b"Po\xed\xa0\x80&#xD800;st"), posts=3),
    "utf-16-that-is-utf-8": small(lambda: b'<?xml version="1.0" encoding="utf-16"?>' + rss(dated(3))[21:], posts=3),
    "an-encoding-that-is-code": small(
        lambda: b'<?xml version="1.0" encoding="zlib_codec"?>' + rss(dated(3))[21:].replace(b"Post", b"P\xf6st"),
        posts=3,
    ),
    "elements-with-names-of-the-parser": small(
        lambda: item(
            b"<links>x</links><tags a='b'/><authors>x</authors><content>x</content><where>x</where><image>x</image>"
            b"<title_detail a='b'/><summary_detail>x</summary_detail><published_parsed>x</published_parsed>"
            b"<media_content>x</media_content><source a='b'>x</source><author_detail>x</author_detail>"
        ),
        posts=1,
    ),
    "dates-beyond-time": small(
        lambda: item(b"<pubDate>Fri, 31 Dec 99999 23:59:59 +9999</pubDate>").replace(
            b"</item>", b"</item><item><title>y</title><pubDate>0000-00-00T00:00:00Z</pubDate></item>"
        ),
        posts=2,
    ),
    "script-in-rss": small(in_rss, posts=1, check=nothing_runs),
    "script-in-a-page": small(in_html, kind=HTML, posts=1, check=nothing_runs),
    "script-in-json": small(in_json, kind=JSON, posts=1, check=nothing_runs),
}
