"""Messages about new posts to devices, and their times: from the settings page to the push service."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from microsub.accounts.records import Activity
from microsub.model.settings import FollowSettings
from microsub.reader import channel_list
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.webpush.devices import DEVICES_OF_USER, MOST_DEVICES, TESTS_OF_USER
from microsub.webpush.messages import GIVEN_UP, LOOK, MOST_COUNTED, PAUSE
from tests.reader.conftest import ADDRESS, ReadingVisitor, reading
from tests.support.push_service import PushedBrowser, PushService, claims
from tests.support.readers import OTHER, instance, posts
from tests.support.redis_wrappers import CountingRedis
from tests.support.visitor import Shown, Visitor
from tests.support.web import publisher
from tests.support.world import World

PAGE = "/settings/devices"


@dataclass
class Told:
    """A user with a device, and the push service of its browser."""

    ann: ReadingVisitor
    service: PushService

    @property
    def server(self) -> World:
        return self.ann.server

    async def switch_on(self, *channels: str, **fields: str) -> Shown:
        """Sends what the page's script sends when its button is pressed."""
        return await self.ann.browser.submit(
            await self.ann.get(PAGE), PAGE, **{**self.service.browser.fields, "channel": list(channels), **fields}
        )

    async def look(self, seconds: float = PAUSE) -> list[tuple[str, str]]:
        """The messages of the worker's next round, after so many seconds."""
        self.server.clock.advance(seconds)
        await self.server.device_messages.look_at_due(self.server.now)
        return self.service.take()

    async def publish(self, *names: str, **more: Any) -> None:
        await self.ann.publish(*names, at=self.server.now, **more)

    async def device_id(self) -> str:
        ((device, _),) = await self.server.parts.devices.all("ann")
        return device.id

    async def only(self) -> Any:
        """The only device in the list."""
        (row,) = (await self.ann.get(PAGE)).tree.css("section[aria-labelledby=all] li")
        return row


@pytest.fixture
async def told(real_redis: Redis) -> AsyncIterator[Told]:
    """Ann, with a device for `home`; the worker has already seen the earlier posts."""
    async with instance(real_redis, base_url=ADDRESS) as server, publisher() as site:
        made = Told(await reading(server, "ann", "home", "later"), PushService(site))
        await made.publish("before")
        assert (await made.switch_on("home")).location == f"{PAGE}?done=on"
        assert await made.look() == []
        yield made
        await made.ann.browser.aclose()


async def test_one_post_is_announced_by_its_title(told: Told) -> None:
    """Earlier posts aren't announced, and no post is announced twice."""
    await told.publish("news")
    (message,) = await told.look()
    assert message == ("news", "Home")
    assert await told.look() == []
    assert "last message" in (await told.only()).text()


async def test_feeds_with_a_setting_of_their_own(told: Told) -> None:
    """One is announced from another channel; one isn't, though its channel is."""
    channels, server = told.server.channels, told.server
    (feed,) = await channels.subscriptions("ann", "home")
    await server.following.change("ann", "home", feed.feed, server.now, settings=FollowSettings(notify=False))
    await told.publish("quiet")
    assert await told.look() == []
    other = await server.publish(OTHER, title="Other")
    await server.following.follow("ann", "later", OTHER, server.now, settings=FollowSettings(notify=True))
    await server.publish(OTHER, *posts("loud", at=server.now, host="other.example"))
    assert await told.look() == [("loud", "Later")]
    await server.following.change("ann", "later", other.id, server.now, settings=FollowSettings())
    await server.following.change("ann", "home", feed.feed, server.now, settings=FollowSettings())
    await server.publish(OTHER, *posts("silent", at=server.now, host="other.example"))
    assert await told.look() == []


async def test_the_push_service_gets_only_the_sender(told: Told) -> None:
    """It gets the headers of RFC 8030 and RFC 8292; the message is encrypted."""
    await told.publish("news")
    told.server.clock.advance(LOOK)
    await told.server.device_messages.look_at_due(told.server.now)
    (asked,) = told.service.asked
    assert asked.method == "POST"
    assert {name: asked.headers[name] for name in ("content-encoding", "ttl", "urgency", "topic")} == {
        **{"content-encoding": "aes128gcm", "ttl": "86400", "urgency": "normal", "topic": "new-posts"}
    }
    said, key = claims(asked.headers["authorization"])
    assert said["aud"] == told.service.site.url("").rstrip("/")
    assert said["sub"] == ADDRESS
    assert told.server.now < said["exp"] <= told.server.now + 86_400
    shown = await told.ann.get(PAGE)
    assert shown.tree.css_first("#device").attributes["data-key"] == key
    assert b"news" not in asked.body
    assert told.service.messages == [{"title": "news", "body": "Home", "path": "channel/home", "test": False}]


async def test_users_without_devices_cost_nothing(real_redis: Redis) -> None:
    """The number of users doesn't matter; a device without news costs a few round trips."""
    redis, trips = CountingRedis(real_redis), []
    async with instance(redis, base_url=ADDRESS) as server, publisher() as site:
        for name in ("ann", "bob", "cy"):
            visitor = await reading(server, name, "home")
            await visitor.publish(name, at=server.now)
            redis.trips = 0
            await server.device_messages.look_at_due(server.now)
            trips.append(redis.trips)
        made = Told(visitor, PushService(site))
        await made.switch_on("home")
        await made.look()
        redis.trips = 0
        assert await made.look(LOOK) == []
        trips.append(redis.trips)
    assert trips[:3] == [1, 1, 1]
    assert trips[3] <= 8


async def test_several_posts_are_one_message_in_five_minutes(told: Told) -> None:
    """A later message replaces the earlier ones and counts all unread posts, until the user reads."""
    await told.publish("a", "b", "c")
    assert await told.look(LOOK) == [("Home", "3 new posts")]
    await told.publish("d")
    assert await told.look(LOOK) == []
    assert await told.look(PAUSE) == [("Home", "4 new posts")]
    await told.ann.mark_all(await told.ann.get("/channel/home"))
    await Activity(told.server.redis).note("ann", told.server.now)
    await told.publish("e")
    assert await told.look() == [("e", "Home")]


async def test_posts_read_meanwhile_are_not_announced(told: Told) -> None:
    """The post was read on another device, for example."""
    await told.publish("a")
    await told.ann.reader.post(
        action="timeline", method="mark_read", channel="home", entry=(await told.ann.reader.ids("home"))[0]
    )
    assert await told.look() == []


async def test_a_browser_in_use_is_notified_later(told: Told) -> None:
    """Posts that are still unread some minutes after its last visit are announced."""
    await told.ann.get("/")
    await told.publish("a")
    assert await told.look(LOOK) == []
    assert await told.look(PAUSE) == [("a", "Home")]


async def test_only_chosen_channels_are_announced(told: Told) -> None:
    """Several channels are named. The choice can change without the push service, and applies to all unread posts."""
    server, visitor = told.server, told.ann
    await server.follow_unscheduled(OTHER, "ann", "later")
    await server.publish(OTHER, *posts("x", host="other.example", at=server.now))
    assert await told.look() == []
    done = await visitor.browser.submit(await visitor.get(PAGE), PAGE, channel=["home", "later", "absent"])
    assert done.location == f"{PAGE}?done=chosen"
    await told.publish("a")
    await server.publish(OTHER, *posts("y", host="other.example", at=server.now))
    (message,) = await told.look()
    assert message == ("3 new posts", "Home, Later")
    await visitor.browser.submit(await visitor.get(PAGE), PAGE, channel=[])
    await told.publish("b")
    assert await told.look() == []


async def test_among_very_many_channels_one_is_chosen_by_its_name(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels that were chosen before can be unticked; others aren't listed."""
    monkeypatch.setattr(channel_list, "MOST_BESIDE", 0)
    page = await told.ann.get(PAGE)
    boxes = [node.attributes["value"] for node in page.tree.css("[name=channel]")]
    assert boxes == ["notifications", "home"]
    assert [node.attributes["value"] for node in page.tree.css("datalist option")] == ["Home", "Later"]
    assert (await told.ann.browser.submit(page, PAGE, channel="home", also="later ")).status == 303
    assert "Home, Later" in (await told.only()).text()
    assert (await told.ann.browser.submit(page, PAGE, channel="home", also="Absent")).status == 404


async def test_muted_posts_are_not_announced(told: Told) -> None:
    """They are hidden in the channel."""
    await told.server.rules.mute("ann", "home", "https://blog.example/", told.server.now)
    await told.publish("a")
    assert await told.look() == []


async def test_very_many_posts_are_counted_up_to_a_hundred(told: Told) -> None:
    await told.publish(*[f"p{n}" for n in range(MOST_COUNTED + 5)])
    assert await told.look() == [("Home", "More than 100 new posts")]


async def test_a_device_speaks_the_language_of_its_browser(told: Told) -> None:
    told.ann.browser.client.headers["accept-language"] = "de"
    await told.switch_on("home")
    assert await told.look() == []
    await told.publish("a", "b")
    assert await told.look() == [("Home", "2 neue Beiträge")]


@pytest.mark.parametrize("status", [404, 410])
async def test_an_address_that_is_gone_is_forgotten(told: Told, status: int) -> None:
    """This happens at once, and all its data is deleted."""
    told.service.status = status
    await told.publish("a")
    assert len(await told.look()) == 1
    assert not (await told.ann.get(PAGE)).tree.css("section[aria-labelledby=all]")
    assert await told.server.redis.command("EXISTS", keys.devices_told("ann"), keys.device_states("ann")) == 0
    assert await told.look() == []


async def test_failing_devices_are_retried_less_and_then_removed(told: Told) -> None:
    """A failure loses nothing: the next message counts its posts, too."""
    told.service.status = 500
    await told.publish("a")
    assert await told.look(LOOK) == [("a", "Home")]
    assert await told.look(PAUSE / 2) == []
    await told.publish("b")
    assert await told.look(PAUSE) == [("Home", "2 new posts")]
    assert await told.look(PAUSE) == []
    assert "2 messages could not be delivered" in (await told.only()).text()
    told.service.status = 201
    assert await told.look(PAUSE * 2) == [("Home", "2 new posts")]
    told.service.status = 503
    await told.publish("c")
    for _ in range(GIVEN_UP):
        assert await told.look(7 * 3600)
    assert await told.look(7 * 3600) == []
    assert not (await told.ann.get(PAGE)).tree.css("section[aria-labelledby=all]")


async def test_a_push_service_says_when_to_come_again(told: Told) -> None:
    told.service.status, told.service.headers = 429, [("Retry-After", "3600")]
    await told.publish("a")
    assert await told.look()
    assert await told.look(3000) == []
    assert await told.look(700)


async def test_signing_out_ends_it(told: Told) -> None:
    """This holds for any way of signing out; the rest is deleted in the next round."""
    (session,) = await told.server.parts.sessions.all("ann")
    await told.server.parts.sessions.end("ann", session.id)
    await told.publish("a")
    assert await told.look() == []
    assert await told.server.redis.command("EXISTS", keys.devices_told("ann")) == 0


async def test_a_disabled_user_gets_no_messages(told: Told) -> None:
    await told.server.accounts.disable_user("ann", told.server.now)
    await told.publish("a")
    assert await told.look() == []


async def test_a_crash_between_writing_and_sending_doubles_nothing(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message may be lost; the next one counts its posts."""

    async def dying(*_: object) -> None:
        raise RuntimeError

    await told.publish("a")
    with monkeypatch.context() as patch:
        patch.setattr(told.server.fetcher, "send", dying)
        with pytest.raises(RuntimeError):
            await told.look()
    assert await told.look(700) == []
    await told.publish("b")
    assert await told.look() == [("Home", "2 new posts")]


async def test_a_test_message_comes_soon_and_not_too_often(told: Told) -> None:
    """It needs no new posts, and is sent only to the named device."""
    for _ in range(TESTS_OF_USER.most):
        page = await told.ann.get(PAGE)
        done = await told.ann.browser.submit(page, f"{PAGE}/test", device=await told.device_id())
        assert done.location == f"{PAGE}?done=test"
        assert await told.look(0) == [("It works", "New posts will appear like this.")]
    page = await told.ann.browser.submit(await told.ann.get(PAGE), f"{PAGE}/test", device=await told.device_id())
    assert page.status == 429
    assert await told.look(0) == []
    assert (await told.ann.browser.submit(page, f"{PAGE}/test", device="f" * 16)).status == 404


async def test_a_removed_device_gets_no_messages(told: Told) -> None:
    page = await told.ann.get(PAGE)
    done = await told.ann.browser.submit(page, f"{PAGE}/end", device=await told.device_id())
    assert done.location == f"{PAGE}?done=off"
    await told.publish("a")
    assert await told.look() == []
    assert (await told.ann.browser.submit(await told.ann.get(PAGE), PAGE, channel="home")).status == 404


WRONG = ("http://push.example/1", "https://user:word@push.example/1", "javascript:alert(1)", "https://", "push")


@pytest.mark.parametrize(
    "device",
    [{"public": "AAAA"}, *({"address": one} for one in (*WRONG, "https://push.example/" + "x" * 3000))],
)
async def test_invalid_keys_and_addresses_are_refused(told: Told, device: dict[str, str]) -> None:
    assert (await told.switch_on("home", **device)).status == 400


async def test_no_message_goes_into_a_private_network(told: Told) -> None:
    """All requests are guarded; redirects aren't followed."""
    await told.switch_on("home", address="https://inside.example/1")  # the resolver returns 10.0.0.1
    await told.look()
    await told.publish("a")
    assert await told.look() == []
    assert "1 message could not be delivered" in (await told.only()).text()
    elsewhere = told.service.site.serve("/elsewhere", lambda _asked: pytest.fail("a redirect was followed"))
    await told.switch_on("home")
    await told.look()
    told.service.status, told.service.headers = 307, [("Location", elsewhere)]
    await told.publish("b")
    assert len(await told.look()) == 1


async def test_a_hanging_push_service_delays_no_other(told: Told) -> None:
    """For a minute it gets no more messages, also for other users' devices; later they are sent."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{closed.getsockname()[1]}/1"
        assert (await told.switch_on("home", address=away)).status == 303
        await told.look()
        await told.publish("a")
        assert await told.look() == []
        other = await signed_in_again(told.server, 1)
        fields = {**PushedBrowser(f"{away}2").fields, "channel": "home"}
        assert (await other.submit(await other.get(PAGE), PAGE, **fields)).status == 303
        for id_ in [one.id for one, _ in await told.server.parts.devices.all("ann")]:
            await told.server.parts.devices.ask_test("ann", id_, told.server.now)
        await told.look(30)
        assert sorted(await failures(told)) == [0, 1]
        await told.look(31)
        assert sorted(await failures(told)) == [1, 2]
        await other.aclose()


async def failures(told: Told) -> list[int]:
    return [state.failures for _, state in await told.server.parts.devices.all("ann") if state is not None]


async def signed_in_again(server: World, number: int) -> Visitor:
    """Another browser of the same user."""
    browser = Visitor(server.app, ADDRESS)
    cookie = await server.parts.sessions.begin("ann", "https://ann.example/", "tests", f"B{number}", server.now)
    browser.client.cookies.set("__Host-microsub-session", cookie, domain="reader.example", path="/")
    return browser


async def test_devices_of_a_user_are_limited(told: Told) -> None:
    """Devices that are signed out make room."""
    server = told.server
    for n in range(MOST_DEVICES):
        other = await signed_in_again(server, n)
        fields = {**PushedBrowser(f"https://push.example/{n}").fields, "channel": "home"}
        done = await other.submit(await other.get(PAGE), PAGE, **fields)
        assert done.status == (303 if n < MOST_DEVICES - 1 else 403)
        await other.aclose()
    assert len((await told.ann.get(PAGE)).tree.css("section[aria-labelledby=all] li")) == MOST_DEVICES


async def test_restarts_of_a_device_are_limited(told: Told) -> None:
    """A device that starts again gets the next post at once, so restarts have a rate limit."""
    statuses = [(await told.switch_on("home")).status for _ in range(DEVICES_OF_USER.most)]
    assert statuses == [303] * (DEVICES_OF_USER.most - 1) + [429]
