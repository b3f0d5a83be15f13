"""The blogs of one run. Every run has its own paths, so that a server's memory of earlier runs doesn't matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from microsub_conformance.site.blogs import Format, Person, SampleBlog, SamplePost
from microsub_conformance.site.publisher import FeedServer, PublishedDocument

FORMATS: tuple[Format, ...] = ("rss", "atom", "json", "h-feed")
TIED = 60
"""Posts of the blog `ties` with the same time."""

Make = Callable[[str, Format, list[SamplePost], "Person | None"], SampleBlog]


@dataclass(frozen=True, slots=True)
class Library:
    """All blogs of a run, each with its purpose.

    `eight`: 8 posts, by `ann` and `ben` in turn. `pair`: two such posts, for situations that are kept, so that those of
    `eight` are only in the channel of the current requirement. `fresh`: 12 posts newer than any other. `ties`: 75
    posts, 60 of them with the same time. `long`: 130 posts. `formats`: the same three posts in every format. `rich`:
    kinds of posts and properties. `hostile`: markup that must be removed, and odd dates. `podcast`: enclosures.
    `changing`: edited between two polls. `unseen`: never followed. `page` is a web page that names the feeds of `eight`
    and `fresh`, `bare_page` one that names none.
    """

    ann: Person
    ben: Person
    eight: SampleBlog
    pair: SampleBlog
    fresh: SampleBlog
    ties: SampleBlog
    long: SampleBlog
    formats: dict[Format, SampleBlog]
    rich: SampleBlog
    hostile: SampleBlog
    podcast: SampleBlog
    changing: SampleBlog
    unseen: SampleBlog
    page: str
    bare_page: str


def publish(publisher: FeedServer, run: str, now: datetime) -> Library:
    """Create and publish the blogs of this run; `now` has a time zone and whole seconds."""
    root = f"/{run}"
    ann = Person("Ann Example", f"{publisher.base}{root}/people/ann", f"{publisher.base}{root}/people/ann.jpg")
    ben = Person("Ben Example", f"{publisher.base}{root}/people/ben")

    def make(name: str, form: Format, posts: list[SamplePost], author: Person | None = None) -> SampleBlog:
        blog = SampleBlog(f"{name} {run}", f"{root}/{name}", publisher.base, form, posts, author)
        publisher.put(blog.path, blog.document())
        return blog

    minute = timedelta(minutes=1)
    hour = timedelta(hours=1)
    eight = make("eight", "atom", _numbered("eight", 8, now - 3 * hour, minute, (ann, ben)))
    fresh = make("fresh", "rss", _numbered("fresh", 12, now - hour / 4, timedelta(seconds=10)))
    return Library(
        ann=ann,
        ben=ben,
        eight=eight,
        pair=make("pair", "atom", _numbered("pair", 2, now - 4 * hour, minute, (ann, ben))),
        fresh=fresh,
        ties=make("ties", "json", _ties(now - 5 * hour)),
        long=make("long", "rss", _numbered("long", 130, now - 24 * hour, 7 * minute)),
        formats={form: make(f"in-{form}", form, _same_posts(now - 6 * hour), ann) for form in FORMATS},
        rich=make("rich", "h-feed", _rich(now - 7 * hour, publisher.base + root), ann),
        hostile=make("hostile", "rss", _hostile(now, publisher.base + root)),
        podcast=make("podcast", "rss", _podcast(now - 8 * hour, publisher.base + root)),
        changing=make("changing", "atom", _numbered("changing", 9, now - 2 * hour, minute, (ann,))),
        unseen=make("unseen", "json", _numbered("unseen", 3, now - 9 * hour, minute)),
        page=publisher.put(f"{root}/page", _page(eight, fresh)),
        bare_page=publisher.put(f"{root}/bare", _bare_page()),
    )


def _numbered(
    name: str, count: int, newest: datetime, step: timedelta, authors: tuple[Person, ...] = ()
) -> list[SamplePost]:
    return [
        SamplePost(
            slug=f"post-{number}",
            published=newest - number * step,
            html=f"<p>The body of number {number} of the blog {name}.</p>",
            title=f"Number {number} of {name}",
            author=authors[number % len(authors)] if authors else None,
        )
        for number in range(count)
    ]


def _ties(instant: datetime) -> list[SamplePost]:
    newer = _numbered("ties", 5, instant + timedelta(minutes=9), timedelta(minutes=1))
    tied = [
        SamplePost(f"tied-{number}", instant, f"<p>Tied text {number} with words of its own.</p>", f"Tied {number}")
        for number in range(TIED)
    ]
    older = [
        SamplePost(
            f"old-{number}", instant - timedelta(minutes=1 + number), f"<p>Older text {number}.</p>", f"Older {number}"
        )
        for number in range(10)
    ]
    return [*newer, *tied, *older]


def _same_posts(newest: datetime) -> list[SamplePost]:
    return [
        SamplePost(
            "umlauts",
            newest,
            "<p>Grüße aus Łódź, 東京 und São Paulo – with <strong>bold</strong> words &amp; more.</p>",
            "Zoë’s naïve façade — Привет",
            categories=("travel", "größe"),
        ),
        SamplePost("plain", newest - timedelta(minutes=1), "<p>Nothing special here.</p>", "A plain title"),
        SamplePost("late", newest - timedelta(minutes=2), "<p>An oldest text.</p>", "The third"),
    ]


def _rich(newest: datetime, root: str) -> list[SamplePost]:
    away = "https://elsewhere.example"
    markup = {
        "note": '<p class="p-name e-content">Only a short note, whose name is its content.</p>',
        "article": '<h2 class="p-name">A real title</h2><div class="e-content"><p>And a text.</p></div>',
        "photo": f'<img class="u-photo" src="{root}/one.jpg" alt="a hill"><div class="e-content">On the hill.</div>',
        "video": f'<video class="u-video" src="{root}/one.mp4"></video><div class="e-content">It moves.</div>',
        "like": f'Likes <a class="u-like-of" href="{away}/liked">this</a>',
        "repost": f'Reposts <a class="u-repost-of" href="{away}/reposted">this</a>',
        "bookmark": f'<a class="u-bookmark-of" href="{away}/kept">kept</a><div class="e-content">Worth it.</div>',
        "reply": f'<a class="u-in-reply-to" href="{away}/asked">re</a><div class="e-content">I think so.</div>',
        "rsvp": f'<a class="u-in-reply-to" href="{away}/party">re</a><data class="p-rsvp" value="yes">Coming</data>',
        "checkin": (
            '<div class="u-checkin h-card"><a class="u-url p-name" href="https://cafe.example/">The Café</a>'
            '<data class="p-latitude" value="52.5166"></data><data class="p-longitude" value="13.4"></data></div>'
            '<div class="e-content">Good cake.</div>'
        ),
        "syndicated": (
            f'<div class="e-content">Here and there.</div><a class="u-syndication" href="{away}/copy">copy</a>'
        ),
    }
    return [
        SamplePost(kind, newest - timedelta(minutes=number), "", markup=inner)
        for number, (kind, inner) in enumerate(markup.items())
    ]


def _hostile(now: datetime, root: str) -> list[SamplePost]:
    earlier = now - timedelta(hours=10)
    return [
        SamplePost(
            "markup",
            earlier,
            '<p onclick="steal()">Visible text<script>steal()</script><style>p{color:red}</style>'
            f'<a href="javascript:steal()">link</a><img src="{root}/ok.jpg" onerror="steal()">'
            '<form action="/x"><input name="y"></form><iframe src="https://frames.example/"></iframe></p>',
            "Dangerous markup",
        ),
        SamplePost(
            "relative",
            earlier - timedelta(minutes=1),
            '<p>See <a href="next/page">next</a> and <img src="/pictures/a.jpg" alt="a"></p>',
            "Relative addresses",
        ),
        SamplePost("future", now + timedelta(days=30), "<p>Dated a month ahead.</p>", "From the future"),
        SamplePost(
            "scheme",
            earlier - timedelta(minutes=2),
            "<p>Its link is a script.</p>",
            "A link that is a script",
            link="javascript:steal()",
        ),
    ]


def _podcast(newest: datetime, root: str) -> list[SamplePost]:
    files = (("audio", "audio/mpeg", "mp3"), ("video", "video/mp4", "mp4"), ("photo", "image/jpeg", "jpg"))
    return [
        SamplePost(
            kind,
            newest - timedelta(minutes=number),
            f"<p>An episode with one {kind} file.</p>",
            f"Episode with {kind}",
            enclosures=((f"{root}/files/one.{suffix}", media),),
        )
        for number, (kind, media, suffix) in enumerate(files)
    ]


def _page(*blogs: SampleBlog) -> PublishedDocument:
    kinds = {"rss": "application/rss+xml", "atom": "application/atom+xml"}
    links = "".join(
        f'<link rel="alternate" type="{kinds[blog.format]}" title="{blog.name}" href="{blog.url}">' for blog in blogs
    )
    page = (
        f'<!doctype html><html><head><meta charset="utf-8"><title>Home</title>{links}</head><body>Hello</body></html>'
    )
    return PublishedDocument("text/html; charset=utf-8", page.encode())


def _bare_page() -> PublishedDocument:
    page = '<!doctype html><html><head><meta charset="utf-8"><title>Bare</title></head><body>No feed.</body></html>'
    return PublishedDocument("text/html; charset=utf-8", page.encode())
