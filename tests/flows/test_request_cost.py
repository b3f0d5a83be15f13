"""The cost of requests in Redis: round trips that wait for one another.

Calls that leave together count as one, as those of a pipeline do; settings, which are read once a second, don't count.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from microsub.accounts.grants import Codes, Consent
from microsub.configuration.effective import EffectiveSettings
from microsub.greader.api import PATHS
from microsub.model.reader import POSTING_SCOPES, Cursor
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.scripts import batches
from microsub.timelines.item_cache import ItemCache
from tests.support import world
from tests.support.native_app import NativeApp
from tests.support.readers import FEED, instance, posts
from tests.support.redis_wrappers import InRow
from tests.support.visitor import BY_PASSWORD, PASSWORD, SIGN_IN, Visitor, begin_session
from tests.support.visitor import SESSION as COOKIE
from tests.support.world import World

ADDRESS = "https://reader.example"


@dataclass
class Measured:
    """A server with the user ann, who has the channel `home`."""

    redis: InRow
    server: World

    def trips(self) -> int:
        """The number of round trips in a row since the last call."""
        rows, self.redis.rows = self.redis.rows, []
        print("", *(f"{number:3} {', '.join(row)}" for number, row in enumerate(rows, 1)), sep="\n")
        return len(rows)


@pytest.fixture
async def measured(real_redis: Redis, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Measured]:
    """Settings and posts stay remembered; the time is the real one, by which Redis expires keys."""
    redis = InRow(real_redis)
    monkeypatch.setattr(world, "ItemCache", lambda items, *_: ItemCache(items, None, 1 << 20, clock=lambda: 0.0))
    async with instance(redis, time.time(), base_url=ADDRESS) as server:
        server.effective = EffectiveSettings(server.declared, server.own_settings, remembered=600)
        await server.reader("ann", "home")
        yield Measured(redis, server)


async def token_of_app(server: World, source: str) -> str:
    """The token of an app that the user let in with this source."""
    codes = Codes(server.redis)
    asked = Consent("ann", "https://app.example/", "App", "https://app.example/", frozenset(POSTING_SCOPES), "", source)
    _, issued = await codes.redeem(await codes.create(asked, server.now), "", lambda _: True, server.now)
    assert issued is not None
    return issued.access


@pytest.mark.parametrize("by_app", [False, True], ids=["a script", "an app"])
async def test_the_round_trips_of_a_micropub_post(measured: Measured, by_app: bool) -> None:
    """Ten, until its post is stored and given to delivery."""
    server = measured.server
    source = await server.sources.create("ann", "home", "Backups", server.now)
    renewed = await server.sources.renew_token("ann", source.id, server.now)
    token = await token_of_app(server, source.id) if by_app else renewed
    for text in ("one", "two"):
        measured.trips()
        headers = {"Authorization": f"Bearer {token}"}
        reply = await server.client.post("/micropub", headers=headers, data={"h": "entry", "content": text})
        assert reply.status_code == 201, reply.text
    assert measured.trips() <= 10
    await server.stages.run_once()
    assert len(await server.rows("ann")) == 2


async def test_the_round_trips_of_a_sign_in_by_password(measured: Measured) -> None:
    """Six, in a new browser and in one that is known."""
    server = measured.server
    await server.parts.local.set_password("ann", PASSWORD, server.now)
    browser = Visitor(server.app, ADDRESS)
    for _ in range(2):
        page = await browser.get(SIGN_IN)
        measured.trips()
        shown = await browser.submit(page, BY_PASSWORD, who="ann", password=PASSWORD)
        assert shown.location == "/"
        assert measured.trips() <= 6
        browser.client.cookies.delete(COOKIE)


OLDER = f"?after={Cursor('9999999999', '1').encode()}"


@pytest.mark.parametrize(
    "path",
    ["/", "/channel/home", "/channel/home?show=unread", f"/channel/home{OLDER}"],
    ids=["home", "all", "unread", "older"],
)
async def test_the_round_trips_of_a_timeline_page(measured: Measured, path: str) -> None:
    """Two, if its posts and the titles of their feeds are remembered: the session, and all that the page shows."""
    server = measured.server
    await server.follow_unscheduled(FEED, "ann", "home")
    await server.publish(FEED, *posts("one", "two"))
    browser = Visitor(server.app, ADDRESS)
    await begin_session(browser, server)
    for _ in range(2):
        measured.trips()
        shown = await browser.get(path)
        assert len(shown.tree.css(".post")) == 2
        assert shown.tree.css_first("#channels [data-channel=saved] [data-count]").text() == "0"
    assert measured.trips() <= 2


async def test_kept_searches_and_display_settings_cost_nothing(measured: Measured) -> None:
    """Both are read with the session."""
    server = measured.server
    searches = '[["Tides","tide","global",false],["Fog","fog","home",true]]'
    await server.follow_unscheduled(FEED, "ann", "home")
    await server.publish(FEED, *posts("one", "two"))
    await server.accounts.set_settings("ann", {"display": "dark.large.compact", "searches": searches})
    browser = Visitor(server.app, ADDRESS)
    await begin_session(browser, server)
    for path in ("/", "/channel/home", "/channel/home"):
        measured.trips()
        shown = await browser.get(path)
        assert [node.text() for node in shown.tree.css("#kept + ul .name")] == ["Tides", "Fog"]
        assert shown.tree.css_first("html").attributes["data-theme"] == "dark"
    assert measured.trips() <= 2


async def test_a_page_for_an_ended_session_reads_the_session_only(measured: Measured) -> None:
    """What the page shows isn't read before the session is known to be valid."""
    server = measured.server
    browser = Visitor(server.app, ADDRESS)
    await begin_session(browser, server)
    assert (await browser.get("/channel/home")).status == 200
    await server.parts.sessions.end_all("ann")
    measured.trips()
    assert (await browser.get("/channel/home")).location.startswith(SIGN_IN)
    assert measured.trips() == 1


async def test_a_later_sync_of_a_native_app(measured: Measured) -> None:
    """Each request of a sync with nothing new takes at most three round trips."""
    server = measured.server
    app = await NativeApp.signed_in(server, "ann")
    await server.publish(FEED, *posts("b", "a", at=server.now - 60))
    await server.following.follow("ann", "home", FEED, server.now)
    lists = {name: (await app.get(name)).headers["etag"] for name in ("tag/list", "subscription/list")}
    synced = int(time.time()) + 1
    measured.trips()
    for name, tag in lists.items():
        url, headers = f"{app.address}/reader/api/0/{name}", {**app.headers, "If-None-Match": tag}
        assert (await app.client.get(url, headers=headers)).status_code == 304
        assert measured.trips() <= 3
    for asked in (
        {"s": "user/-/state/com.google/reading-list", "ot": synced},
        {"s": "user/-/state/com.google/reading-list", "xt": "user/-/state/com.google/read"},
        {"s": "user/-/state/com.google/starred"},
    ):
        await app.get("stream/items/ids", **asked)
        assert measured.trips() <= 3


NATIVE_TRIPS = {
    **{"subscription/list": 4, "unread-count": 7, "stream/items/ids": 2, "stream/items/count": 2},
    **{"stream/items/contents": 9, "stream/contents": 9, "atom": 9},
    **{"edit-tag": 3, "mark-all-as-read": 7, "subscription/edit": 15, "subscription/export": 4, "disable-tag": 2},
}
"""Round trips of the requests of the Google Reader API that need more than those for token and channels.

The name of a feed is changed before, so it is read again.
"""
OTHERS = 4
"""Feeds and channels beside the first one: round trips don't grow with them."""


async def test_every_request_of_a_native_app(measured: Measured) -> None:
    """With a budget for each, whatever the number of feeds and channels."""
    server = measured.server
    app = await NativeApp.signed_in(server, "ann")
    (native,) = {route.endpoint for route in server.app.routes if getattr(route, "path", "") in PATHS}
    await server.publish(FEED, *posts("b", "a", at=server.now - 60))
    await server.following.follow("ann", "home", FEED, server.now)
    about: dict[str, dict[str, object]] = {
        "edit-tag": {"i": await app.ids(), "a": "user/-/state/com.google/read"},
        "stream/items/contents": {"i": await app.ids()},
        "mark-all-as-read": {"s": "user/-/state/com.google/reading-list"},
        "subscription/edit": {"ac": "edit", "s": f"feed/{FEED}", "t": "A name"},
    }
    for number in range(OTHERS + 1):
        trips = {}
        for name in (action.removeprefix("greader ") for action in native.actions if action != "greader ClientLogin"):
            place = f"{app.address}/reader/" + ("atom/user/-/label/Home" if name == "atom" else f"api/0/{name}")
            measured.trips()
            reply = await app.client.post(place, data=about.get(name, {}), headers=app.headers)
            assert reply.status_code == 200 or name not in about
            trips[name] = measured.trips()
        over = {name: count for name, count in trips.items() if count > NATIVE_TRIPS.get(name, 1)}
        assert not over, number
        url = f"https://{number}.example/feed"
        await server.channels.create("ann", f"Channel {number}", server.now)
        await server.publish(url, *posts("b", "a", host=f"{number}.example", at=server.now - 60))
        await server.following.follow("ann", "home", url, server.now)


async def test_a_small_feed_among_many_items_of_a_native_app(measured: Measured) -> None:
    """Its ids take as many round trips as if there were no others."""
    server = measured.server
    app = await NativeApp.signed_in(server, "ann")
    await server.publish(FEED, *posts("b", "a", at=server.now - 60))
    await server.following.follow("ann", "home", FEED, server.now)
    await app.ids()
    trips = []
    for _ in range(2):
        measured.trips()
        assert len(await app.ids(f"feed/{FEED}")) == 2
        trips.append(measured.trips())
        many = [f"https://{number}.example/feed" for number in range(3)]
        for number, url in enumerate(many):
            host = f"{number}.example"
            await server.publish(url, *posts(*map(str, range(1000)), host=host, at=server.now - 86_400))
            await server.following.follow("ann", "home", url, server.now)
    assert len(await app.ids()) > 1000
    assert trips[1] <= trips[0] <= 7


async def test_all_ids_of_a_large_account_of_a_native_app(measured: Measured) -> None:
    """26 bytes for each, and a round trip for some thousand: of everything, of the unread ones and of a folder."""
    server, redis, size = measured.server, measured.server.redis, 20_000
    app = await NativeApp.signed_in(server, "ann")
    await app.ids()
    first = int((server.now - size) * 1_000_000)
    for ids in batches(range(1, size + 1)):
        pairs = (part for one in ids for part in (server.now - size + one, one))
        await redis.command("ZADD", keys.posts("ann", "home"), *pairs)
        await redis.command("SADD", keys.unread("ann", "home"), *ids)
        await redis.command("ZADD", keys.arrivals("ann"), *(part for one in ids for part in (first + one, one)))
    everything = "user/-/state/com.google/reading-list"
    for asked, most in (
        ({"s": everything}, size / 5000 + 6),
        ({"s": everything, "ot": 1}, size / 5000 + 6),
        ({"s": everything, "xt": "user/-/state/com.google/read"}, size / 1000 + 6),
        ({"s": "user/-/label/Home"}, size / 1000 + 6),
    ):
        measured.trips()
        reply = await app.get("stream/items/ids", n=200_000, **asked)
        assert measured.trips() <= most
        assert reply.content.count(b'"id"') == size
        assert len(reply.content) <= 26 * size + 100
