"""Foreign pictures come through this server: signed for one user, recognised by their first bytes, within limits."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from microsub.base.errors import NotFound, StoreFull, TooManyRequests
from microsub.cli.serving import webserver
from microsub.fetch import FetchFailed, Sending
from microsub.formats.xml.media import picture_type
from microsub.model.jf2 import Content, Entry
from microsub.reader.reading import images
from microsub.reader.reading.images import IMAGES_OF_USER, IMAGES_WAITING, LIMITS, Images
from microsub.redis import keys
from tests.reader.conftest import ReadingVisitor, reading
from tests.support.waiting import wait_until
from tests.support.web import Answer, Publisher

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
BODIES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0" + bytes(20),
    "image/gif": b"GIF89a" + bytes(20),
    "image/webp": b"RIFF\x10\x00\x00\x00WEBPVP8 ",
    "image/avif": b"\x00\x00\x00\x1cftypavif" + bytes(8),
}
NONE = (
    b"",
    b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    b"<html>",
    b"RIFF\x10\x00\x00\x00WAVE",
    b"%PDF-1.7",
    b"BM....",
)


async def address(ann: ReadingVisitor, url: str) -> str:
    """The address of ours with which a page shows that picture."""
    await ann.publish_entry(Entry(photo=(url,)))
    return (await ann.get("/channel/home")).tree.css_first(".photos img").attributes["src"] or ""


def served(site: Publisher, body: bytes, kind: str = "image/png") -> str:
    return site.serve("/picture", Answer(body, headers=[("Content-Type", kind)]))


@pytest.mark.parametrize(("kind", "body"), BODIES.items())
async def test_the_first_bytes_say_what_it_is(ann: ReadingVisitor, site: Publisher, kind: str, body: bytes) -> None:
    """The type from the picture's server doesn't count; browsers may keep it privately, and run nothing in it."""
    shown = (await ann.get(await address(ann, served(site, body, "text/html")))).response
    assert (shown.status_code, shown.headers["content-type"], shown.content) == (200, kind, body)
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in shown.headers["content-security-policy"]
    assert shown.headers["cache-control"].startswith("private, max-age=")


@pytest.mark.parametrize("body", NONE)
async def test_only_pictures_are_served(ann: ReadingVisitor, site: Publisher, body: bytes) -> None:
    """SVG isn't either: it can contain scripts."""
    assert picture_type(body) is None
    assert (await ann.get(await address(ann, served(site, body, "image/png")))).status == 404


async def test_addresses_are_signed_for_one_user(ann: ReadingVisitor, site: Publisher) -> None:
    """The signature isn't valid for another picture, another user, or without a session."""
    path = await address(ann, served(site, PNG))
    signature, place = path.split("/")[2:]
    for other in (f"/image/{signature}/{place[:-2]}", f"/image/x/{place}", f"/image/{signature}/%00", "/image/x/***"):
        assert (await ann.get(other)).status == 404
    bob = await reading(ann.server, "bob", "mine")
    assert (await bob.get(path)).status == 404
    ann.browser.client.cookies.clear()
    assert (await ann.get(path)).status == 303
    assert site.asked == []


async def test_limits(ann: ReadingVisitor, site: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of size, and of pictures per minute."""
    few = IMAGES_OF_USER._replace(most=10)
    monkeypatch.setattr(images, "IMAGES_OF_USER", few)
    path = await address(ann, served(site, PNG + bytes(LIMITS.body)))
    assert (await ann.get(path)).status == 404
    path = await address(ann, "http://10.0.0.1/picture.png")
    replies = []
    while len(replies) < 2 * few.most and 429 not in replies[-1:]:  # a minute may end in between
        reply = (await ann.get(path)).response
        replies.append(reply.status_code)
    assert (replies[0], replies[-1]) == (404, 429)
    assert reply.headers["retry-after"] == "5"


async def test_slow_pictures_leave_slots_to_others(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user has as many places as a browser needs, and two while half of all places are taken; more of them wait.

    Those beyond what a page can show, and those that have waited for long, are refused.
    """
    asked: list[Sending] = []
    answered = asyncio.Event()

    class Slow:
        async def send(self, sending: Sending) -> FetchFailed:
            asked.append(sending)
            await answered.wait()
            return FetchFailed(sending.url, "timeout", "too late")

    pictures, url = Images(ann.server.redis, Slow()), "https://slow.example/a.png"
    waiting, taken = [], []
    for user in ("one", "two", "three", "four", "five"):
        _, _, signature, place = (await pictures.addresses(user))(url).split("/")
        some = [asyncio.create_task(pictures.fetch(user, signature, place)) for _ in range(10)]
        waiting.extend(some)
        await wait_until(
            lambda user=user: pictures._limiter._taken[(IMAGES_WAITING, user)] + len(asked) - sum(taken) == 10
        )
        taken.append(len(asked) - sum(taken))
    assert taken == [8, 8, 2, 2, 2]
    last = signature, place
    _, _, signature, place = (await pictures.addresses("one"))(url).split("/")
    waiting += [asyncio.create_task(pictures.fetch("one", signature, place)) for _ in range(198)]
    await wait_until(lambda: pictures._limiter._taken[(IMAGES_WAITING, "one")] == 200)
    with pytest.raises(TooManyRequests):
        await pictures.fetch("one", signature, place)
    monkeypatch.setattr(images, "LONGEST_WAIT", 0.01)
    with pytest.raises(TooManyRequests):
        await pictures.fetch("five", *last)
    answered.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert len(asked) == len(waiting)
    assert all(isinstance(one, NotFound) for one in outcomes)
    assert not pictures._limiter._taken


async def test_a_picture_has_its_place_until_it_is_sent(ann: ReadingVisitor, site: Publisher) -> None:
    """240 slow readers of one user filled two gigabytes with pictures that had been fetched."""
    path, pictures = await address(ann, served(site, PNG + bytes(6_000_000))), ann.server.parts.images
    cookies = "; ".join(f"{name}={value}" for name, value in ann.browser.cookies.items())
    request = f"GET {path} HTTP/1.1\r\nHost: reader.example\r\nCookie: {cookies}\r\n\r\n".encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with webserver.serving(ann.server.app, listener, asyncio.Event()):

            async def status() -> bytes:
                reader, writer = await asyncio.open_connection(*listener.getsockname(), limit=1000)
                opened.append(writer)
                writer.write(request)
                return (await reader.readuntil(b"\r\n"))[9:12]

            opened: list[asyncio.StreamWriter] = []
            asking = [asyncio.create_task(status()) for _ in range(12)]
            await wait_until(lambda: sum(one.done() for one in asking) == 8)
            await wait_until(lambda: pictures._limiter._taken[(IMAGES_WAITING, "ann")] == 4)
            for writer in opened:
                writer.close()
            await wait_until(lambda: not pictures._limiter._taken)
            assert await status() == b"200"
            opened[-1].close()


async def test_private_networks_stay_closed(ann: ReadingVisitor) -> None:
    """The guard of all requests checks those for pictures too."""
    assert (await ann.get(await address(ann, "http://10.0.0.1/picture.png"))).status == 404


async def test_no_address_of_others_is_loaded(ann: ReadingVisitor) -> None:
    """Bodies, avatars and players: the page has no foreign address that a browser would load automatically."""
    html = (
        '<p><img src="https://a.example/1.png" width="10" height="20" srcset="https://a.example/2.png 2x"></p>'
        '<picture><source srcset="https://a.example/3.webp"><img src="https://a.example/3.png"></picture>'
        '<video src="https://a.example/v.mp4" poster="https://a.example/p.png"></video>'
        '<audio><source src="https://a.example/a.mp3"></audio>'
        '<iframe src="https://www.youtube.com/embed/x" sandbox="allow-scripts"></iframe>'
    )
    id_ = await ann.publish_entry(Entry(name="x", content=Content(html=html), featured="https://a.example/f.png"))
    for path in ("/channel/home", f"/post/{id_}"):
        tree = (await ann.get(path)).tree
        assert not tree.css("iframe, video, audio, source, picture, object, embed, [srcset], [style], [poster]")
        sources = [node.attributes["src"] or "" for node in tree.css("[src]")]
        assert len(sources) >= 3
        assert not [one for one in sources if not one.startswith(("/image/", "/static/"))]
        links = {node.attributes["href"] for node in tree.css(".content a:not([data-whole])")}
        assert {"https://a.example/v.mp4", "https://a.example/a.mp3", "https://www.youtube.com/embed/x"} == links
        (first, *_) = tree.css(".content img")
        assert (first.attributes["width"], first.attributes["height"], first.attributes["loading"]) == (
            "10",
            "20",
            "lazy",
        )


async def test_a_full_redis_without_picture_key_hides_no_page(
    ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages and their pictures work until there is room; then all processes share a key."""
    await ann.publish_entry(Entry(photo=("https://pictures.example/a.png",)))
    command, full = ann.server.redis.command, True

    async def refuse(*args: Any) -> Any:
        if args[:2] == ("SET", keys.image_secret()) and full:
            raise StoreFull("Redis refuses writes")
        return await command(*args)

    monkeypatch.setattr(ann.server.redis, "command", refuse)
    pages = [await ann.get("/channel/home?show=all") for _ in range(2)]
    first, second = (page.tree.css_first(".photos img").attributes["src"] for page in pages)
    assert (pages[0].status, first) == (200, second)
    full = False
    own = Images(ann.server.redis, ann.server.fetcher)
    address = (await own.addresses("ann"))("https://pictures.example/a.png")
    assert address != first
    shown = await ann.get("/channel/home?show=all")
    assert shown.tree.css_first(".photos img").attributes["src"] == address
