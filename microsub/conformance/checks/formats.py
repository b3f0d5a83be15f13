"""The same posts in each feed format come out the same."""

from __future__ import annotations

from microsub.conformance.blogs import Format
from microsub.conformance.checks.items import instant
from microsub.conformance.library import FORMATS
from microsub.conformance.requirement import DESIGN, SPEC, Chapter, Check
from microsub.conformance.timeline import urls
from microsub.conformance.verdict import expect, same
from microsub.conformance.world import World

formats = Chapter("formats", anchor="Following", section="Formats")

NAMES: dict[Format, str] = {"rss": "RSS 2.0", "atom": "Atom", "json": "JSON Feed 1.1", "h-feed": "h-feed"}


def _check(form: Format) -> Check:
    def check(w: World) -> None:
        blog = w.blogs.formats[form]
        _, found = w.filled(blog)
        same(urls(found), blog.links(), "the addresses of the posts, newest first")
        for item, post in zip(found, blog.posts, strict=True):
            same(item.get("name"), post.title, "'name'")
            same(instant(item), post.published, "'published'")
        first = found[0]
        same(first.get("category"), ["travel", "größe"], "'category'")
        html, text = first.get("content", {}).get("html", ""), first.get("content", {}).get("text", "")
        expect("<strong>bold</strong>" in html, "the markup of the content", html)
        same(text, "Grüße aus Łódź, 東京 und São Paulo – with bold words & more.", "the text of the content")

    check.__doc__ = (
        f"Posts of a feed in {NAMES[form]} arrive once each, with address, title, time, categories and content."
    )
    return check


for _form in FORMATS:
    formats.requirement(_form, source=SPEC if _form == "h-feed" else DESIGN)(_check(_form))
