"""The pages on the Python interfaces are correct: their programs run, and every public name is described."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

import microsub.cache
from microsub import library
from microsub.cache import CachedFeed, FeedCache
from microsub.feeds.events import Event, Kind
from microsub.fetch import REASONS, Fetcher, FetchRequest, FetchResult
from microsub.formats import feed_links
from microsub.formats.feed_links import FeedLink
from microsub.formats.parse import parse
from microsub.formats.write import write_atom, write_jsonfeed, write_rss
from microsub.library import EventPage, FeedPage, Post, PostPage, PostStore, Saved, open_post_store
from microsub.model.jf2 import Card, Content, Enclosure, Entry, Feed
from microsub.post_store.api import _RESOURCES, PATH
from tests.support.feed_cache import site

DOCS = Path(__file__).parents[2] / "docs"
CACHE, STORE, FORMATS = (
    (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8") for name in ("feed-cache", "post-store", "formats")
)
PRINTED = {
    "how-to/use-the-feed-cache.md": None,
    "how-to/use-the-post-store.md": [
        "1 True Storm {'beaufort': 10, 'from': 'NW'}\n",
        "new\nchanged: beaufort\nchanged: nothing\n",
        "".join(" ".join(f"Hour {n}" for n in range(top, top - 10, -1)) + "\n" for top in (29, 19, 9))
        + "5 posts have left\n",
        "feed_created \npost_created 1\npost_modified 1 name\n",
    ],
    "reference/formats.md": None,
}
"""The complete output of each page's programs; None if it only has to contain the feed's title."""
PROGRAMS = [
    pytest.param(program, whole[number] if whole else "Harbour", id=f"{page} {number}")
    for page, whole in PRINTED.items()
    for number, program in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL))
]
FEED = b"<rss version='2.0'><channel><title>Harbour</title><item><title>Ebb</title></item></channel></rss>"
SITE = b"<link rel='alternate' type='application/rss+xml' title='Harbour' href='/feed'>"


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_the_programs_run(
    program: str,
    printed: str,
    tmp_path: Path,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each prints the expected output, with an empty Redis and a web that serves one feed everywhere."""
    web = site()

    async def fetch(_self: Fetcher, request: FetchRequest) -> FetchResult:
        return await web.fetch(request)

    monkeypatch.setattr(Fetcher, "fetch", fetch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "feed.xml").write_bytes(FEED)
    (tmp_path / "page.html").write_bytes(SITE)
    exec(compile(program.replace("redis://localhost:6379/0", redis_url), "page", "exec"), {})
    out = capsys.readouterr().out
    assert out == printed or (printed == "Harbour" and printed in out)


def missing(page: str, names: Iterable[str]) -> set[str]:
    return {name for name in names if not re.search(rf"\b{name}\b", page)}


def assert_methods(page: str, of: type, names: Iterable[str]) -> None:
    """Checks that each method is described with its arguments."""
    for name in names:
        parameters = list(inspect.signature(getattr(of, name)).parameters.values())[1:]
        text = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)
        assert f"{name}({text})" in page


def test_every_name_of_the_feed_cache_is_described() -> None:
    """Names, arguments, fields and reasons."""
    names = {*microsub.cache.__all__, *inspect.signature(FeedCache).parameters, *CachedFeed.__dataclass_fields__}
    assert missing(CACHE, names | {*REASONS}) == set()
    assert_methods(CACHE, FeedCache, ("fetch", "fetch_many", "remove", "purge", "aclose"))


def test_every_name_of_the_post_store_is_described() -> None:
    """Names, methods with their arguments, fields, kinds of events, addresses."""
    names = {*library.__all__, *inspect.signature(open_post_store).parameters, *get_args(Kind)}
    for value in (Saved, Post, PostPage, FeedPage, EventPage, Event):
        names |= value.__dataclass_fields__.keys()
    assert missing(STORE, names) == set()
    public = [name for name, _ in inspect.getmembers(PostStore, inspect.isfunction) if not name.startswith("_")]
    assert_methods(STORE, PostStore, public)
    for parts in _RESOURCES:
        assert f"`{PATH}/{'/'.join(part or '<id>' for part in parts)}`" in STORE


def test_every_name_of_the_formats_is_described() -> None:
    """Fields by name, functions with their arguments in order, as in the code."""
    for value in (Feed, Entry, Content, Card, Enclosure, FeedLink):
        assert {field.name for field in fields(value) if f"`{field.name}`" not in FORMATS} == set()
    for function in (
        parse,
        write_rss,
        write_atom,
        write_jsonfeed,
        *filter(inspect.isfunction, map(vars(feed_links).get, feed_links.__all__)),
    ):
        assert f"`{function.__name__}({', '.join(inspect.signature(function).parameters)})`" in FORMATS
