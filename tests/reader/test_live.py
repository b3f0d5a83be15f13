"""Open pages are notified of changes: without their content, and only for signed-in users."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlencode

from microsub.reader.reading.pages import _changes
from microsub.redis import keys
from microsub.timelines.sync.live_events import EVENTS_OF_NETWORK, EVENTS_OF_USER, Listeners
from tests.reader.conftest import ReadingVisitor, ids
from tests.support.visitor import Visitor
from tests.support.waiting import wait_until


async def test_a_change_is_announced(ann: ReadingVisitor) -> None:
    """By the next change of her channels, and not by another user's; the stream ends with the server, and releases its
    place.
    """
    listeners = ann.server.parts.listeners
    reply = asyncio.create_task(ann.get("/live"))
    await wait_until(lambda: keys.live_events("ann") in listeners._waiting)
    listeners.changed([keys.live_events("bob")])
    listeners.changed([keys.live_events("ann")])
    listeners.stop()
    shown = (await reply).response
    assert shown.headers["content-type"] == "text/event-stream"
    assert shown.text.count("data: changed") in {1, 2}
    assert not listeners.limits._taken


async def test_an_open_page_gets_the_states_of_its_posts(ann: ReadingVisitor) -> None:
    """Of those that it names and the channel beside them shows; saved ones are read in `saved`."""
    await ann.publish("one", "two", "three")
    one, two, three = ids(await ann.get("/channel/home"))
    await ann.change(await ann.get("/channel/home"), "read", two)
    await ann.change(await ann.get("/channel/home"), "save", three)

    async def told(**listed: str) -> object:
        reply = await ann.get("/news?" + urlencode({"channel": "home", "posts": json.dumps(listed)}))
        return reply.response.json()["states"]

    assert await told(home=f"{one} {two} 999 x {three}") == {one: 0, two: 1, three: 2}
    assert await told(home=one, saved=f"{three} {two}", gone=two) == {one: 0, three: 3}
    nothings = (
        "[1]",
        '{"home": 1}',
        "{",
        '{"global": "1"}',
        '{"%2": "1"}',
        '{"home": "9999999999999999999"}',
        "[" * 9000,
    )
    for nothing in (*({"posts": text} for text in nothings), {}):
        reply = await ann.get("/news?" + urlencode({"channel": "home", **nothing}))
        assert (reply.response.json()["states"], reply.response.json()["new"]) == ({}, 0)


async def test_a_change_during_a_pause_is_announced_after_it() -> None:
    """Without that, posts that came within a second of the follow were seen a minute later."""
    listeners, changed = Listeners(), b"data: changed\n\n"
    stream = _changes(listeners, "ann", [])
    assert await anext(stream) == b": waiting\n\n"
    for _ in range(2):
        listeners.changed([keys.live_events("ann")])
        assert await anext(stream) == changed
    await stream.aclose()
    assert not listeners._waiting


async def test_strangers_get_no_stream(ann: ReadingVisitor) -> None:
    """The stream is for signed-in users, each with a limited number of streams."""
    stranger = Visitor(ann.server.app, ann.browser.address)
    assert (await stranger.get("/live")).status == 303
    limits = ann.server.parts.listeners.limits
    leave = limits.take([(EVENTS_OF_USER, "ann")] * EVENTS_OF_USER.most)
    assert (await ann.get("/live")).status == 429
    leave()


async def test_people_behind_a_proxy_have_no_limit_in_common(ann: ReadingVisitor) -> None:
    """The proxy's address is shared by all users; a public address is that of a network."""
    listeners = ann.server.parts.listeners
    listeners.stop()  # so that a stream ends at once
    for address, status in (("127.0.0.1", 200), ("93.184.216.34", 429)):
        listeners.limits.take([(EVENTS_OF_NETWORK, address)] * EVENTS_OF_NETWORK.most)
        visitor = Visitor(ann.server.app, ann.browser.address, client=address)
        visitor.client.cookies.update(ann.browser.client.cookies)
        assert (await visitor.get("/live")).status == status


async def test_an_open_page_gets_the_signs_beside_channels(ann: ReadingVisitor) -> None:
    """Of those whose feeds can't be read, with what they say, but without the lines of channels: those are longer."""
    server = ann.server
    await server.channels.rename("ann", "home", "<b>Home", server.now)
    (feed,) = await server.channels.followed_feeds("ann")

    async def told() -> dict[str, str]:
        signs: dict[str, str] = (await ann.get("/news?channel=home")).response.json()["signs"]
        return signs

    assert await told() == {}
    await server.feeds.update(feed, {"failures": "1"})
    await server.parts.survey.note(feed)
    signs = await told()
    words = '<span aria-hidden="true">1</span><span class="unseen">&lt;b&gt;Home: 1 feed can’t be read</span>'
    assert signs == {"home": f'<a class="attention" href="/channels/home?show=attention">{words}</a>'}
    await server.feeds.update(feed, {"failures": "0"})
    await server.parts.survey.note(feed)
    assert await told() == {}
