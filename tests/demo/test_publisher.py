"""The demo's publisher over HTTP: validators, methods, and use in another server's event loop."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from microsub_demo.blog import Blog
from microsub_demo.cast import BLOGS, BY_SLUG, newest_number, time_of
from microsub_demo.documents import feed_path
from microsub_demo.publisher import CHANNELS, Publisher, backend_document, write_backend

NOW = 1_780_000_000.0
BASE = "http://127.0.0.1:9"


class Clock:
    """A clock that tests set."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
async def client(clock: Clock):
    transport = httpx.ASGITransport(Publisher(BASE, clock))
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        yield client


@pytest.mark.parametrize("path", [feed_path(blog) for blog in BLOGS if blog.status == 200])
async def test_unchanged_feed_is_answered_with_304(client: httpx.AsyncClient, path: str) -> None:
    """Either validator alone and both together give 304 with an empty body while nothing is new."""
    first = await client.get(path)
    assert first.status_code == 200
    tag, date = first.headers["etag"], first.headers["last-modified"]
    for validators in (
        {"if-none-match": tag},
        {"if-modified-since": date},
        {"if-none-match": tag, "if-modified-since": date},
        {"if-none-match": f'"other", W/{tag}'},
        {"if-none-match": "*"},
    ):
        again = await client.get(path, headers=validators)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag


async def test_new_post_and_edit_change_both_validators(client: httpx.AsyncClient, clock: Clock) -> None:
    """After a post, and after an edit, old validators fetch the new document."""
    blog = BY_SLUG["second-thoughts"]
    start = time_of(blog, newest_number(blog, NOW))
    instants = (start, start + blog.edits[0], start + blog.every)
    seen = []
    for clock.now in instants:
        reply = await client.get("/second-thoughts/atom.xml")
        seen.append((reply.headers["etag"], reply.headers["last-modified"]))
        for tag, date in seen[:-1]:
            for validator in ({"if-none-match": tag}, {"if-modified-since": date}):
                assert (await client.get("/second-thoughts/atom.xml", headers=validator)).status_code == 200
    assert len({tag for tag, _ in seen}) == len({date for _, date in seen}) == 3


async def test_unreadable_date_counts_as_absent(client: httpx.AsyncClient) -> None:
    """A date that can't be read is ignored."""
    for date in ("yesterday", "", "Thu, 01 Jan 2099 00:00:00"):
        assert (await client.get("/mo/", headers={"if-modified-since": date})).status_code == 200


@pytest.mark.parametrize("blog", [blog for blog in BLOGS if blog.status != 200], ids=lambda blog: blog.slug)
async def test_some_feeds_are_refused(client: httpx.AsyncClient, blog: Blog) -> None:
    """Each with its own status; the blog's page can be read."""
    assert (await client.get(feed_path(blog))).status_code == blog.status
    assert (await client.get(f"/{blog.slug}/")).status_code == 200


async def test_methods(client: httpx.AsyncClient) -> None:
    """HEAD is GET without a body, others are refused, unknown paths are 404."""
    got, head = await client.get("/mo/"), await client.head("/mo/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers == got.headers
    assert (await client.post("/mo/")).status_code == 405
    assert (await client.get("/nobody/")).status_code == 404


async def test_without_a_base_it_takes_the_address_of_the_request() -> None:
    """In another server, it writes the address under which it is requested."""
    transport = httpx.ASGITransport(Publisher())
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8123") as client:
        reply = await client.get("/orrery/atom.xml")
    assert 'xml:base="http://127.0.0.1:8123"' in reply.text


def test_backend_is_written_once_per_address(tmp_path: Path) -> None:
    """An edited file for this publisher stays; a file for another port is replaced."""
    path = tmp_path / "backend.json"
    assert write_backend(path, BASE)
    edited = json.loads(path.read_text()) | {"x-note": "mine"}
    path.write_text(json.dumps(edited))
    assert not write_backend(path, BASE)
    assert json.loads(path.read_text()) == edited
    assert write_backend(path, BASE + "9")
    assert json.loads(path.read_text()) == backend_document(BASE + "9")


def test_backend_document_follows_every_blog_for_two_users() -> None:
    """One of the users follows each blog, both follow some, and all URLs exist."""
    document = backend_document(BASE)
    followed = {
        user: [feed["url"] for channel in settings["channels"] for feed in channel["feeds"]]
        for user, settings in document["users"].items()
    }
    assert set(followed) == set(CHANNELS)
    assert {url for urls in followed.values() for url in urls} == {BASE + feed_path(blog) for blog in BLOGS}
    assert set(followed["robin"]) & set(followed["kim"])
    assert len(followed["kim"]) == len(BLOGS)
