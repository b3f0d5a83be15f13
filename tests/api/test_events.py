"""`events`: changes of a user's channels, as a browser's EventSource reads them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from microsub.api import events
from microsub.model.settings import OwnChannelSettings
from microsub.redis import keys
from microsub.timelines.sync.live_events import EVENTS_OF_TOKEN, EVENTS_OF_USER
from tests.support.event_stream import EventStream, Heard, listening
from tests.support.readers import Reader, posts
from tests.support.waiting import wait_until
from tests.support.world import World

FEED = "https://blog.example/feed"


@pytest.fixture(autouse=True)
def quick(server: World) -> None:
    server.parts.listeners.patience = 0.02


@pytest.fixture
async def ids(server: World, alice: Reader) -> list[str]:
    """Three posts in Alice's channel `home`, newest first."""
    await alice.post(action="follow", channel="home", url=FEED)
    await server.publish(FEED, *posts("c", "b", "a"))
    return await alice.ids("home")


async def publish(server: World, *names: str) -> None:
    server.now += 60
    await server.publish(FEED, *posts(*names, at=server.now))


def names(heard: list[Heard]) -> list[str]:
    return [one.name for one in heard]


def resumed(heard: Heard) -> dict[str, str]:
    return {"Last-Event-ID": heard.id}


async def test_the_head_of_a_stream(server: World, alice: Reader, ids: list[str]) -> None:
    """Headers against buffering in caches and web servers; the current counts come first, with the place to go on."""
    async with listening(server.app, alice) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-store"
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.headers["access-control-allow-origin"] == "*"
        assert not {"content-length", "content-encoding"} & stream.headers.keys()
        started, rest = stream.body.decode().split("\n\n")
        lines = dict(line.split(": ", 1) for line in started.splitlines())
        assert (lines.keys(), rest) == ({"retry", "event", "data", "id"}, ""), "each id belongs to an event"
        assert json.loads(lines["data"]) == await alice.get(action="channels")


async def test_new_posts_arrive_with_the_count_behind_them(server: World, alice: Reader, ids: list[str]) -> None:
    """Each item as on a page, the oldest first; then the total unread count."""
    async with listening(server.app, alice) as stream:
        await publish(server, "e", "d")
        heard = await stream.until("new item in channel")
    page = await alice.items("home")
    assert [one.data for one in heard[:-1]] == [{"channel": "home", "item": item} for item in page[1::-1]]
    assert heard[-1].data == {"uid": "home", "name": "Home", "unread": len(ids) + 2}
    assert len({one.id for one in heard}) == len(heard), "each is a place of its own"


async def test_marks_and_changes_of_channels(server: World, alice: Reader, ids: list[str]) -> None:
    """By another app, or by the same one."""
    async with listening(server.app, alice) as stream:
        await alice.post(action="timeline", method="mark_read", channel="home", entry=ids[0])
        assert (await stream.next()).data == {"uid": "home", "name": "Home", "unread": 2}
        await alice.post(action="channels", name="News")
        assert await stream.next() == Heard("new channel", {"channel": _channel("news", "News")}, stream.parser.last_id)
        await alice.post(action="channels", channel="news", name="Newer")
        assert (await stream.next()).data == {"channel": _channel("news", "Newer")}
        await alice.post(action="channels", method="order", channels=["news", "home"])
        moved = await stream.next()
        order = [one["uid"] for one in (await alice.get(action="channels"))["channels"]]
        assert (moved.name, moved.data) == ("update channel", {"channel": _channel("news", "Newer"), "order": order})
        await alice.post(action="channels", method="delete", channel="news")
        deleted = await stream.next()
        assert (deleted.name, deleted.data) == ("delete channel", {"uid": "news"})


def _channel(uid: str, name: str, unread: int = 0) -> dict[str, Any]:
    return {"uid": uid, "name": name, "unread": unread}


async def test_a_stream_resumes_from_each_event_id(server: World, alice: Reader, ids: list[str]) -> None:
    """From each event id, by header or parameter: no event is missing, none comes twice."""
    async with listening(server.app, alice) as stream:
        start = stream.parser.last_id
        await publish(server, "f", "e", "d")
        await alice.post(action="channels", name="News")
        whole = await stream.until("new channel")
    for number, place in enumerate([start, *(one.id for one in whole)]):
        for how in (
            {"headers": {"Last-Event-ID": place}},
            {"last_event_id": place},
            {"lastEventId": place},
            {"Last-Event-ID": place},
        ):
            async with listening(server.app, alice, **how) as stream:  # type: ignore[arg-type]
                again = [await stream.next() for _ in whole[number:]]
                await asyncio.sleep(0.05)
                assert (again, await stream.rest()) == (whole[number:], [])


@pytest.mark.parametrize(
    "place", ["1-1", "99999999999999-0", "0", "x" * 10_000, "1-1.1", "-", "+", "$", "1-1\n", "\u00e4", "9" * 400]
)
async def test_an_expired_event_id_gives_resync(server: World, alice: Reader, ids: list[str], place: str) -> None:
    """One `resync` with the current state, and then new events."""
    async with listening(server.app, alice, last_event_id=place) as stream:
        resync = await stream.next()
        assert (resync.name, resync.data) == ("resync", await alice.get(action="channels"))
        await publish(server, "d")
        assert names(await stream.until("new item in channel")) == ["new item", "new item in channel"]


async def test_events_that_are_lost_under_an_open_stream(server: World, alice: Reader, ids: list[str]) -> None:
    """For example when Redis comes back empty: the stream reports it and continues."""
    async with listening(server.app, alice) as stream:
        await server.redis.command("DEL", keys.live_events("alice"))
        assert (await stream.next()).name == "resync"
        await publish(server, "d")
        assert names(await stream.until("new item in channel")) == ["new item", "new item in channel"]


async def test_channels_are_chosen(server: World, alice: Reader, ids: list[str]) -> None:
    """Several are possible; others cause no events, and an unknown one is an error before the stream begins."""
    async with listening(server.app, alice, **{"channel[]": ["later", "notifications"]}) as stream:
        before = stream.parser.last_id
        await publish(server, "d")
        await alice.post(action="channels", channel="later", name="Evening")
        (heard,) = await stream.until("update channel")
        assert heard.data == {"channel": _channel("later", "Evening")}
        assert stream.parser.last_id > before
    assert "nowhere" in (await alice.get(404, action="events", channel="nowhere"))["error_description"]
    async with listening(server.app, alice, channel=["global", "later"]) as stream:
        await publish(server, "e")
        assert (await stream.next()).name == "new item"


async def test_counts_follow_the_channels_setting(server: World, alice: Reader, ids: list[str]) -> None:
    """The format is the same as in other replies."""
    await server.channels.set_settings("alice", "home", OwnChannelSettings(unread="boolean"), server.now)
    async with listening(server.app, alice) as stream:
        await alice.post(action="timeline", method="mark_read", channel="home", entry=ids[0])
        assert (await stream.next()).data["unread"] is True


async def test_streams_need_a_token_with_the_scope(server: World, alice: Reader) -> None:
    """401 as JSON before a stream begins, so that browsers don't retry; 403 without the scope."""
    nobody = Reader("nobody", "nobody.x", alice.client)
    assert (await nobody.get(401, action="events"))["error"] == "unauthorized"
    writer = Reader("alice", await server.grant("alice", "channels"), alice.client)
    assert (await writer.get(403, action="events"))["scope"] == "read"
    assert (await alice.post(400, action="events"))["error"] == "invalid_request"
    head = await alice.client.head("/microsub", params={"action": "events"}, headers=alice.headers)
    assert (head.status_code, head.headers["content-type"], head.content) == (200, "text/event-stream", b"")


async def test_a_token_in_the_address(server: World, alice: Reader) -> None:
    """EventSource sends no headers of its own."""
    async with listening(server.app, Reader("alice", "", alice.client), access_token=alice.token) as stream:
        assert stream.status == 200


@pytest.mark.parametrize("how", ["revoked", "expired", "disabled", "removed"])
async def test_a_stream_ends_with_its_token(server: World, alice: Reader, ids: list[str], how: str) -> None:
    """Later events aren't sent; the next attempt gets the reason."""
    credential = server.accounts.credential(alice.token)
    assert credential is not None
    async with listening(server.app, alice) as stream:
        if how == "revoked":
            await server.accounts.revoke("alice", credential.digest)
        elif how == "expired":
            await server.redis.command("HSET", keys.token("alice", credential.digest), "expires", server.now - 1)
        else:
            await server.accounts.disable_user("alice", server.now)
            if how == "removed":
                user = await server.accounts.user("alice")
                assert user is not None
                assert await server.accounts.delete_disabled(user)
        await publish(server, "d")
        await stream.end()
        assert await stream.rest() == []
    assert (await alice.get(401, action="events"))["error"] == "unauthorized"
    assert how != "removed" or await server.redis.command("EXISTS", keys.live_events("alice")) == 0


async def test_a_client_that_doesnt_read_costs_one_piece(server: World, alice: Reader, ids: list[str]) -> None:
    """At most one piece waits; a client that reads again gets all of it, or an event that it was too much."""
    async with listening(server.app, alice) as stream:
        stream.reading.clear()
        for number in range(30):
            await publish(server, *(f"{number} {one}" for one in range(10)))
        await wait_until(lambda: _is(stream.waiting == 1))
        size = len(stream.body)
        await asyncio.sleep(0.1)
        assert (stream.waiting, len(stream.body)) == (1, size)
        stream.reading.set()
        heard: list[Heard] = []
        while names(heard).count("new item") < 300:
            heard.append(await stream.next())
        assert (await stream.until("new item in channel"))[-1].data["unread"] == 303


async def _is(fact: bool) -> bool:
    return fact


async def test_a_silent_stream_sends_heartbeats(
    server: World, alice: Reader, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a comment, and an event with the last place before which nothing is missing."""
    monkeypatch.setattr(events, "PING_EVERY", 0.05)
    async with listening(server.app, alice) as stream:
        place = stream.parser.last_id
        ping = await stream.next(pings=True)
        assert (ping.name, ping.data, stream.parser.comments >= 1, stream.parser.last_id) == ("ping", {}, True, place)
    async with listening(server.app, alice, channel="notifications") as stream:
        await publish(server, "d")
        await wait_until(lambda: _passed(stream, place))


async def _passed(stream: EventStream, place: str) -> bool:
    await stream.next(pings=True)
    return stream.parser.last_id > place


async def test_streams_have_bounds(server: World, alice: Reader, bob: Reader) -> None:
    """For a token, and for a user with many; each stream that ends makes room, and other users aren't affected."""
    tokens = [await server.grant("alice", "read") for _ in range(EVENTS_OF_USER.most // EVENTS_OF_TOKEN.most)]
    open_ones: list[EventStream] = []
    for token in tokens:
        reader = Reader("alice", token, alice.client)
        for _ in range(EVENTS_OF_TOKEN.most):
            open_ones.append(EventStream(server.app, reader))
            await open_ones[-1].started()
            assert open_ones[-1].status == 200
        assert (await reader.get(429, action="events"))["error"] == "too_many_requests"
    assert (await alice.get(429, action="events"))["error"] == "too_many_requests"
    async with listening(server.app, bob):
        pass
    await open_ones.pop().leave()
    async with listening(server.app, alice):
        pass
    await asyncio.gather(*(stream.leave() for stream in open_ones))
    assert not server.parts.listeners.limits._taken


async def test_the_end_of_the_server_ends_all_streams(server: World, alice: Reader) -> None:
    """At once, with the connection closed properly."""
    async with listening(server.app, alice) as stream:
        server.parts.listeners.stop()
        await stream.end()
