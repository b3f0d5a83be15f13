"""A user with hundreds of channels: pages have a part of them, and all are found and counted, without scripts."""

from __future__ import annotations

import pytest

from microsub.redis import keys
from tests.reader.conftest import ReadingVisitor, reading
from tests.support.readers import OTHER, posts
from tests.support.visitor import Shown
from tests.support.world import World

MANY = 250
UNREAD = range(20, 220)


@pytest.fixture
async def ann(server: World) -> ReadingVisitor:
    """Ann has 250 channels, 200 with one unread post each; she follows a blog in the first."""
    made = await reading(server, "ann", *[f"c{number}" for number in range(MANY)])
    await server.redis.pipeline([("ZADD", keys.posts("ann", f"c{n}"), n, str(n + 1)) for n in UNREAD])
    await server.redis.pipeline([("SADD", keys.unread("ann", f"c{n}"), str(n + 1)) for n in UNREAD])
    return made


def beside(page: Shown) -> list[str]:
    """The channels in the list next to the page."""
    return [node.attributes["data-channel"] or "" for node in page.tree.css("#channels [data-channel]")]


def found(page: Shown) -> list[str]:
    """The channels in the complete list."""
    return [node.attributes["data-channel"] or "" for node in page.tree.css(".found [data-channel]")]


def count(page: Shown, uid: str) -> str:
    """The channel's unread count in the list next to the page."""
    return page.tree.css_first(f"#channels [data-channel={uid}] [data-count]").text()


async def test_large_counts_have_narrow_spaces_between_thousands(server: World) -> None:
    """In the list of channels; scripts read the plain number."""
    visitor, ids = await reading(server, "cat", "c1"), [str(number) for number in range(1, 12346)]
    await server.redis.pipeline([("SADD", keys.unread("cat", "c1"), *ids)])
    shown = (await visitor.get("/channels")).tree.css_first("#channels [data-channel=c1] [data-count]")
    assert shown.text() == "12\u202f345"
    assert shown.attributes["data-count"] == "12345"


@pytest.mark.parametrize(("path", "first"), [("/", 20), ("/channel/c100", 50), ("/channel/c219", 120)])
async def test_beside_a_page_are_channels_with_something_unread(ann: ReadingVisitor, path: str, first: int) -> None:
    """A hundred in their order, those around the open one, behind the standard channels."""
    page = await ann.get(path)
    assert beside(page) == ["global", "saved", "notifications", *[f"c{first + n}" for n in range(100)]]
    assert count(page, "global") == str(len(UNREAD))
    assert page.tree.css_first("#channels a[href='/channel']").text() == f"All {MANY + 3} channels"


async def test_the_open_channel_is_always_there(ann: ReadingVisitor) -> None:
    """Even if it has nothing unread."""
    page = await ann.get("/channel/c3")
    assert beside(page)[3] == "c3"
    assert page.tree.css_first("#channels [aria-current]").attributes["data-channel"] == "c3"


async def test_few_channels_are_all_there(server: World) -> None:
    """Up to a hundred, with or without unread posts, and without a search field."""
    visitor = await reading(server, "bob", *[f"c{number}" for number in range(100)])
    page = await visitor.get("/")
    assert beside(page) == ["global", "saved", "notifications", *[f"c{number}" for number in range(100)]]
    assert page.tree.css_first("#find") is None


async def test_all_channels_are_on_a_page_of_their_own(ann: ReadingVisitor) -> None:
    """In their order with their counts, or those whose names contain the search words, in any case."""
    page = await ann.get("/channel")
    assert found(page) == ["global", "saved", "notifications", *[f"c{number}" for number in range(MANY)]]
    assert f"{MANY + 3} channels" in page.text
    assert page.tree.css_first(".found [data-channel=c30] [data-count]").text() == "1"
    await ann.server.channels.rename("ann", "c7", "Größe & more", ann.server.now)
    named = await ann.get("/channel?q=GRÖSSE %26")
    assert found(named) == ["c7"]
    assert [link.attributes["data-channel"] for link in named.tree.css("[autofocus]")] == ["c7"]
    assert found(await ann.get("/channel?q=nothing")) == []
    assert (await ann.get("/channel?q=GRÖSSE %26&open=yes")).location.startswith("/channel/")
    assert found(await ann.get("/channel?q=C&open=yes")) == found(await ann.get("/channel?q=C"))


async def test_more_than_a_page_of_channels_is_in_parts(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts link to each other, and keep the search words."""
    monkeypatch.setattr("microsub.reader.reading.pages.MOST_FOUND", 100)
    page, seen = await ann.get("/channel?q=C"), []
    while True:
        seen += found(page)
        further = page.tree.css_first("a[rel=next]")
        if further is None:
            break
        page = await ann.get(f"/channel{further.attributes['href']}")
    assert seen == ["notifications", *[f"c{number}" for number in range(MANY)]]
    assert "q=C" in page.tree.css_first("a[rel=prev]").attributes["href"]


async def test_channels_are_tended_a_hundred_at_a_time(ann: ReadingVisitor) -> None:
    """The last one of a part is moved into the next, and the page stays at its part; a search finds one."""
    page = await ann.get("/channels?from=100")
    shown = [node.attributes["data-uid"] for node in page.tree.css("[data-uid]")]
    assert shown == [f"c{number}" for number in range(100, 200)]
    moved = await ann.browser.submit(page, "/channels/order", down="c199")
    assert moved.location == "/channels?from=100"
    order = [one.uid for one in await ann.server.channels.list("ann")]
    assert order[199:202] == ["c198", "c200", "c199"]
    page = await ann.get("/channels?q=c249")
    assert [node.attributes["data-uid"] for node in page.tree.css("[data-uid]")] == ["c249"]
    assert "0 feeds" in page.text


async def test_a_feed_moves_to_a_channel_that_is_named(ann: ReadingVisitor) -> None:
    """The page has the names of all channels only once, whatever the number of feeds."""
    page = await ann.get("/channels/c0")
    assert len(page.tree.css("#channel-names option")) == MANY - 1
    assert page.tree.css_first("select[name=to]") is None
    refused = await ann.browser.submit(page, "/channels/c0/move", to="no such")
    assert refused.status == 404
    assert (await ann.browser.submit(page, "/channels/c0/move", to="c200 ")).status == 303
    everywhere = await ann.server.channels.all_subscriptions("ann")
    assert [uid for uid, followed in everywhere.items() if followed] == ["c200"]


async def test_a_name_isnt_read_as_another_channels_uid(ann: ReadingVisitor) -> None:
    """A renamed channel keeps the uid from its first name."""
    await ann.server.channels.rename("ann", "c200", "Former", ann.server.now)
    await ann.server.channels.rename("ann", "c7", "c200", ann.server.now)
    page = await ann.get("/channels/c0")
    assert (await ann.browser.submit(page, "/channels/c0/move", to="c200")).status == 303
    everywhere = await ann.server.channels.all_subscriptions("ann")
    assert [uid for uid, followed in everywhere.items() if followed] == ["c7"]


async def test_feeds_are_followed_in_a_channel_that_is_named(ann: ReadingVisitor) -> None:
    """Either an existing channel or a new one."""
    link = f"<link rel=alternate type=application/rss+xml href={OTHER}>"
    ann.server.web.documents["https://site.example/"] = f"<html>{link}</html>".encode(), "text/html"
    await ann.server.publish(OTHER, *posts("a"))
    page = await ann.get("/follow?q=https://site.example/&channel=c9")
    assert page.tree.css_first("input[name=name]").attributes["value"] == "C9"
    for name, uid in (("C5", "c5"), ("New one", "new-one")):
        done = await ann.browser.submit(page, "/follow", {"url": OTHER}, name=name)
        assert f"channel={uid}" in done.location
