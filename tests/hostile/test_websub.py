"""Hubs and strangers at callbacks change nothing that they shouldn't, and cost no more than polling would."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import pytest
import structlog.testing

from microsub.base.clock import DAY
from microsub.base.errors import InvalidRequest
from microsub.delivery.stage import retry
from microsub.fetch import Fetcher, FetchSettings, SendLimits
from microsub.redis.protocol import Redis
from microsub.server.jobs import STAGES
from microsub.websub import callbacks, hubs
from microsub.websub.hubs import Hubs
from microsub.websub.subscriber import Subscriber
from microsub.work import Bounds, DeadLetters, Stream, backlogs
from tests.support.hub import HubSubscriber
from tests.support.push import BASE, Push, pushing
from tests.support.web import Answer


@pytest.fixture
async def push(redis: Redis) -> AsyncIterator[Push]:
    async with pushing(redis) as made:
        yield made


async def subscribed(push: Push) -> HubSubscriber:
    await push.subscribe()
    (one,) = push.hub.subscriptions.values()
    return one


async def waiting(push: Push) -> int:
    return (await backlogs(push.it.redis, ["pushed"]))["pushed"].messages


def place_of(one: HubSubscriber) -> str:
    """The identifier of a callback: the last part of its path."""
    return one.callback.rpartition("/")[2]


async def broken_off(size: int) -> AsyncIterator[bytes]:
    """A body that stops after these bytes."""
    yield b" " * size
    raise InvalidRequest("the body is incomplete")


async def other_hub(push: Push) -> HubSubscriber:
    """The subscription at another hub, whose feed is followed too."""
    topic, elsewhere = push.site.url("/other", "other.test"), push.site.url("/hub", "otherhub.test")
    document = push.hub.document(topic, "other").replace(push.hub.url.encode(), elsewhere.encode())
    push.site.serve_document("/other", document)
    await push.poll(await push.it.follow(topic))
    await push.look()
    return push.hub.subscriptions[topic, push.hub.callbacks[-1]]


async def test_a_replay_changes_nothing(push: Push) -> None:
    """A signed body that is sent again doesn't undo a later edit, however often."""
    one = await subscribed(push)
    first = push.document("second")
    edited = first.replace(b"About second", b"About second, edited")
    assert await push.deliver(first) == [202]
    push.it.clock.advance(5)
    assert await push.deliver(edited) == [202]
    before = await push.it.texts()
    assert "edited" in before[0]
    for _ in range(3):
        push.it.clock.advance(60)
        assert (await push.hub.deliver(one.callback, first, one.secret)).status_code == 202
        await push.it.stages.run_once()
    assert await push.it.texts() == before


async def test_a_dead_letter_that_is_tried_again_undoes_no_edit(push: Push) -> None:
    """A delivery that failed keeps its original time, however often it is retried."""
    one, dead, stream = await subscribed(push), DeadLetters(push.it.redis), Stream(push.it.redis, "pushed")
    first = push.document("second")
    assert (await push.hub.deliver(one.callback, first, one.secret)).status_code == 202
    for _ in range(2):  # it fails again
        (message,) = await stream.take("tests", 1)
        await dead.add("pushed", message, "it failed", push.it.now)
        await stream.done([message])
        assert await push.deliver(first.replace(b"About second", b"About second, edited")) == [202]
        assert await retry(dead, await dead.list(), push.it.ingest.add_found, STAGES) == []
    await push.it.stages.run_once()
    assert "edited" in (await push.it.texts())[0]
    assert await dead.count() == 0


async def test_a_signature_of_another_subscription_is_invalid(push: Push) -> None:
    """Each callback has its own secret, so a body signed for one feed has an invalid signature for any other."""
    one = await subscribed(push)
    other = push.site.url("/other", "other.test")
    push.site.serve_document("/other", push.hub.document(other, "other"))
    await push.poll(await push.it.follow(other, "bob"))
    await push.look()
    two = push.hub.subscriptions[other, push.hub.callbacks[1]]
    reply = await push.hub.deliver(two.callback, push.document("crossed"), one.secret)
    await push.it.stages.run_once()
    assert reply.status_code == 202
    assert await push.it.texts("bob") == [text for text in await push.it.texts("bob") if "crossed" not in text]
    assert await push.shown() == ["first"]


async def test_callbacks_cannot_be_guessed(push: Push) -> None:
    """Known feeds with other tokens, tokens of other feeds, and nonsense: 410 or 404, with any signature."""
    one = await subscribed(push)
    token = one.callback.rpartition(".")[2]
    places = [
        f"1.{secrets.token_urlsafe(32)}",
        f"2.{token}",
        f"1.{token[:-1]}",
        f"1.{token}x",
        token,
        "1.",
        "",
        "..%2f",
    ]
    for place in places:
        url = f"{BASE}/websub/{place}"
        assert (await push.hub.deliver(url, push.document("guessed"), one.secret)).status_code == 410
        query = {"hub.mode": "subscribe", "hub.topic": push.topic, "hub.challenge": "x"}
        assert (await push.hub.http.get(url, params=query)).status_code == 404
    assert await waiting(push) == 0


async def test_late_deliveries_are_gone(push: Push) -> None:
    """A delivery is refused from some minutes after the lease, which allow for clock differences."""
    one = await subscribed(push)
    push.it.clock.advance(10 * DAY + 300)
    assert (await push.hub.deliver(one.callback, push.document("in time"), one.secret)).status_code == 202
    push.it.clock.advance(600)
    assert (await push.hub.deliver(one.callback, push.document("late"), one.secret)).status_code == 410
    await push.it.stages.run_once()
    assert await push.shown() == ["in time", "first"]


@pytest.mark.parametrize("is_declared", [True, False])
async def test_oversize_deliveries_are_refused(push: Push, is_declared: bool) -> None:
    """The maximum size is that of a polled document; nothing of a larger one is kept."""
    one = await subscribed(push)
    body = b" " * (callbacks.LARGEST + 1)

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1 << 16):
            yield body[start : start + (1 << 16)]

    content = body if is_declared else parts()
    headers = {"x-hub-signature": "sha256=" + "0" * 64}
    reply = await push.hub.http.post(one.callback, content=content, headers=headers)
    assert (reply.status_code, await waiting(push)) == (413, 0)


async def test_compressed_deliveries_are_refused(push: Push) -> None:
    """The signature covers the received bytes, and nothing is decompressed: no bomb either."""
    one = await subscribed(push)
    reply = await push.hub.deliver(one.callback, b"x", one.secret, **{"content-encoding": "gzip"})
    assert (reply.status_code, await waiting(push)) == (415, 0)


async def test_a_flood_is_stopped_at_the_door(push: Push) -> None:
    """60 deliveries per minute per callback; then 429, and no byte of it is read or kept."""
    one = await subscribed(push)
    statuses = [(await push.hub.deliver(one.callback, b"%d" % number, one.secret)).status_code for number in range(100)]
    assert statuses == [202] * 60 + [429] * 40
    assert await waiting(push) == 60
    await push.it.stages.run_once()
    assert await push.shown() == ["first"]
    assert await push.it.redis.command("XLEN", "stream:{dead}") == 0, "what can't be read is no dead letter"


async def test_a_flood_of_bytes_is_stopped_too(push: Push) -> None:
    """The limit is that of polls: one largest document in 5 minutes, including those with a wrong signature."""
    one = await subscribed(push)
    body = b" " * (3 * 1024 * 1024)
    statuses = [(await push.hub.deliver(one.callback, body, "wrong")).status_code for _ in range(6)]
    assert statuses == [202, 202, 202, 429, 429, 429]


async def test_a_delivery_that_stops_half_way_has_counted(push: Push) -> None:
    """The received bytes count towards the hub's limit, whether the rest arrives or not."""
    one = await subscribed(push)
    with pytest.raises(InvalidRequest):
        await push.it.parts.callbacks.deliver(place_of(one), {}, broken_off(callbacks.LARGEST - 1000))
    reply = await push.hub.deliver(one.callback, b" " * 2000, one.secret)
    assert (reply.status_code, await waiting(push)) == (429, 0)


async def test_slow_deliveries_of_a_hub_leave_room_for_others(push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub whose deliveries don't end gets only a share of the memory for them, and two minutes."""
    monkeypatch.setattr(callbacks, "LARGEST", 1000)
    monkeypatch.setattr(callbacks, "HELD_OF_HUB", 2000)
    monkeypatch.setattr(callbacks, "BODY_SECONDS", 0.2)
    one, going_on = await subscribed(push), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b" " * 999
        await going_on.wait()

    held = [asyncio.create_task(push.it.parts.callbacks.deliver(place_of(one), {}, slow())) for _ in range(4)]
    await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED)
    elsewhere = await other_hub(push)
    assert (await push.hub.deliver(elsewhere.callback, b" " * 500, elsewhere.secret)).status_code == 202
    ends = await asyncio.gather(*held, return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["HttpReply"] * 1 + ["TooSlow"] * 3


async def test_one_hubs_flood_leaves_other_hubs_alone(push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a hub is for all its callbacks together, and for no other hub."""
    monkeypatch.setattr(callbacks, "OF_HUB", callbacks.OF_HUB._replace(most=10))
    one = await subscribed(push)
    for number in range(20):
        await push.hub.deliver(one.callback, b"%d" % number, one.secret)
    topic = push.site.url("/other", "other.test")
    await other_hub(push)
    assert await push.hub.publish(topic, push.hub.document(topic, "by the other hub", "other")) == [202]
    assert await push.hub.publish(push.topic, push.document("flood")) == [429]


async def test_a_full_queue_answers_503_to_hubs(push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue is bounded: 503 with a time, and every delivery that got 202 is there."""
    monkeypatch.setattr(callbacks, "WAITING", Bounds(messages=2, bytes=1 << 20))
    one = await subscribed(push)
    replies = [await push.hub.deliver(one.callback, push.document(f"post {n}"), one.secret) for n in range(4)]
    assert [reply.status_code for reply in replies] == [202, 202, 503, 503]
    assert replies[-1].headers["retry-after"] == "60"
    await push.it.stages.run_once()
    assert {"post 0", "post 1"} <= set(await push.shown())
    assert await push.hub.publish(push.topic, push.document("after all")) == [202]


async def test_heavy_deliveries_have_a_share_of_processor_time(push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    """A six-hundredth of the time: after a document that took 10 seconds, none for about an hour."""
    one = await subscribed(push)
    read = push.it.parser.measured

    async def heavy(*given: Any, **how: Any) -> object:
        found, _ = await read(*given, **how)
        return found, 10.0

    monkeypatch.setattr(push.it.parser, "measured", heavy)
    assert await push.deliver(push.document("heavy")) == [202]
    assert await push.deliver(push.document("heavier")) == [429]
    push.it.clock.advance(3600)
    assert await push.deliver(push.document("an hour later")) == [202]
    assert "an hour later" in await push.shown()
    assert one.callback


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff" * 500,
        b"<html>out of order</html>",
        b"{",
        b"<rss>",
        b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]>",
    ],
)
async def test_invalid_deliveries_arent_failures(push: Push, body: bytes) -> None:
    """It is counted; the feed's health, trust and posts don't change."""
    feed = await push.subscribe()
    before = await push.it.record(feed)
    assert await push.deliver(body) == [202]
    after = await push.it.record(feed)
    assert (after.failures, after.last_error, after.body_hash) == (0, None, before.body_hash)
    assert not (await push.health(feed)).pushed
    assert await push.shown() == ["first"]


async def test_hubs_in_private_networks_get_no_request(push: Push) -> None:
    """The guard checks every hop, whether a feed names the hub or a redirect leads to it."""
    fetcher = Fetcher(FetchSettings(), resolver=push.it.resolver)
    strict = Subscriber(
        push.it.redis,
        push.it.feeds,
        push.it.schedule,
        push.it.subscription_store,
        Hubs(fetcher, BASE),
        clock=push.it.clock,
    )
    push.it.__dict__["subscriber"] = strict
    feed = await push.subscribe()
    assert push.hub.requests == []
    assert "hub.test isn't known, or has no public address" in (await push.health(feed)).why
    await fetcher.aclose()


async def test_a_redirect_into_a_private_network_is_not_followed(push: Push) -> None:
    """The first hop may be requested, the second is outside the networks that the admin lists."""
    networks = (ip_network("127.0.0.1/32"),)

    async def resolver(host: str, _port: int) -> list[str]:
        return ["127.0.0.2" if host == "inside.test" else "127.0.0.1"]

    fetcher = Fetcher(FetchSettings(allow_private_networks=networks), resolver=resolver)
    push.hub.answer = lambda asked, form: Answer(
        status=307, headers=[("Location", asked.here("/inside", "inside.test"))]
    )
    push.it.__dict__["subscriber"] = Subscriber(
        push.it.redis,
        push.it.feeds,
        push.it.schedule,
        push.it.subscription_store,
        Hubs(fetcher, BASE),
        clock=push.it.clock,
    )
    feed = await push.subscribe()
    assert push.site.count("/inside") == 0
    assert "inside.test isn't known, or has no public address" in (await push.health(feed)).why
    await fetcher.aclose()


async def test_endless_redirects_are_given_up(push: Push) -> None:
    """Five are followed."""
    push.hub.answer = lambda asked, form: Answer(status=308, headers=[("Location", push.hub.path)])
    feed = await push.subscribe()
    assert push.site.count(push.hub.path) == 6
    assert (await push.health(feed)).why == "the hub redirects more than 5 times"


async def test_secrets_go_to_no_public_hub_in_the_clear(push: Push) -> None:
    """A hub with http on the internet is requested with https instead, or not at all."""
    asked: list[str] = []

    class Door(Fetcher):
        async def send(self, sending: object) -> object:  # type: ignore[override]
            asked.append(sending.url)  # type: ignore[attr-defined]
            return await super().send(sending)  # type: ignore[arg-type]

    async def public(_host: str, _port: int) -> list[str]:
        return ["203.0.114.1"]

    fetcher = Door(FetchSettings(), resolver=public)
    callback = (await push.subscriptions(await push.subscribe())).callbacks[0]
    answer = await Hubs(fetcher, BASE).ask("1", replace(callback, hub="http://hub.test:8080/"), "subscribe")
    assert (asked, answer is None) == (["http://hub.test:8080/"], False)
    assert "expected https" in answer.why
    await fetcher.aclose()


@pytest.mark.parametrize(
    "address", ["http://ann:pass-word@blog.test:{port}/feed", "http://blog.test:{port}/feed?token=0f3a9c71bd"]
)
async def test_no_hub_gets_the_secret_address_of_a_feed(push: Push, address: str) -> None:
    """A private feed that doesn't name its own address is polled, and the health says why."""
    body = push.document().replace(b'rel="self"', b'rel="via"')
    push.site.serve_document("/feed", body)
    feed = await push.it.follow(address.format(port=push.site.port))
    await push.poll(feed)
    await push.look()
    assert push.hub.requests == []
    assert (await push.health(feed)).why.startswith("the feed's address has a secret")


async def test_no_hub_gets_a_key_that_the_feed_repeats(push: Push) -> None:
    """Some publishers repeat the requested address as the feed's own, and name a public hub."""
    address = f"http://blog.test:{push.site.port}/feed?key=hunter2"
    topic = push.topic.encode()
    push.site.serve_document("/feed", push.document().replace(b'href="' + topic, b'href="' + address.encode()))
    feed = await push.it.follow(address)
    await push.poll(feed)
    await push.look()
    assert push.hub.requests == []
    assert (await push.health(feed)).why.startswith("the feed's address has a secret")


async def test_a_hanging_hub_delays_no_other(push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twenty feeds of a hub that never answers and one of another hub, that one is subscribed at once."""
    monkeypatch.setattr(hubs, "LIMITS", SendLimits(total=0.2, body=1000))

    async def hang(asked: object) -> None:
        await asked.hang()  # type: ignore[attr-defined]

    push.site.serve("/hung", hang)
    hung = push.site.url("/hung", "hung.test")
    for number in range(20):
        topic = push.site.url(f"/{number}", "many.test")
        document = push.hub.document(topic, str(number)).replace(push.hub.url.encode(), hung.encode())
        push.site.serve_document(f"/{number}", document)
        await push.poll(await push.it.follow(topic))
    feed = await push.subscribe()
    assert push.site.count("/hung") <= 4, "the others wait until it was left alone for a minute"
    assert (await push.health(feed)).subscribed
    assert await push.deliver(push.document("second")) == [202]


async def test_no_log_line_has_a_callback_or_a_secret(push: Push) -> None:
    """No event at a callback writes its path or its secret into the log."""
    with structlog.testing.capture_logs() as lines:
        one = await subscribed(push)
        await push.deliver(push.document("second"))
        await push.hub.deliver(one.callback, b"x", "wrong")
        await push.hub.deliver(one.callback, b"x", None)
        await push.hub.http.put(one.callback, content=b"x")
        await push.hub.http.get(f"{one.callback}?hub.mode=unsubscribe")
        await push.hub.deny(one.callback, push.topic, "because")
    text = repr(lines)
    assert "a delivery with a wrong signature was ignored" in text
    for secret in (one.callback, one.callback.rpartition(".")[2], one.secret):
        assert secret not in text
