"""Strangers at the hub and the callbacks that they choose: no unwanted subscriptions, few requests, no delays."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Sequence

import pytest
import structlog.testing

from microsub.base.urls import host_of
from microsub.fetch import REST, Fetcher, FetchSettings, SendLimits
from microsub.hub import api, store
from microsub.hub import worker as hub_worker
from microsub.hub.subscriptions import RETRIES
from microsub.hub.worker import PUT_OFF, HubWorker
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.subscriber import HubClient, hub_client
from tests.support.web import Answer, Asked


@pytest.fixture
async def client(redis: Redis) -> AsyncIterator[HubClient]:
    async with hub_client(redis) as made:
        yield made


async def test_unconfirmed_callbacks_get_no_deliveries(client: HubClient) -> None:
    """A victim's address as a callback gets one request, however often the hub is asked within the limits."""
    victim = client.callback("/victim")
    victim.confirms = False
    for _ in range(5):
        await client.ask(victim.url)
        await client.publish(f"post {client.server.now}")
    assert len(victim.verifications) == 5
    assert not victim.deliveries


async def test_verifications_per_host_are_limited(client: HubClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further requests with callbacks on that host are refused for all senders."""
    monkeypatch.setattr(api, "HUB_REQUESTS_TO_HOST", api.HUB_REQUESTS_TO_HOST.__class__("requests", "host", 10))
    statuses = [(await client.ask(client.site.url(f"/{number}", "victim.test"))).status_code for number in range(12)]
    assert statuses == [202] * 10 + [429] * 2
    assert len(client.site.asked) == 10
    assert (await client.ask(client.callback().url)).status_code == 202


async def test_a_replayed_request_changes_nothing(client: HubClient) -> None:
    """Repeating another subscriber's request, to begin or to end, only makes the hub verify that subscriber again."""
    app = await client.subscribe(secret="known")
    app.confirms = False
    for mode in ("subscribe", "unsubscribe"):
        assert (await client.ask(app.url, mode=mode, secret="forged")).status_code == 202
    await client.publish("second")
    assert "x-hub-signature" in app.deliveries[-1].headers


async def test_topics_cannot_be_guessed(client: HubClient) -> None:
    """The hub and the addresses of topics answer alike for a wrong secret and for an unknown user."""
    made = (await client.alice.post(action="topics", method="create", channel="home"))["topic"]
    wrong = made.replace(made[-20:-5], "A" * 15)
    replies = [await client.get(wrong), await client.get(wrong.replace("/alice/", "/nobody/"))]
    assert {reply.status_code for reply in replies} == {404}
    assert len({reply.content for reply in replies}) == 1
    for topic in (wrong, made.replace("/home.", "/later."), client.topic.replace("alice.", "alice/")):
        assert (await client.ask(client.callback().url, topic)).status_code == 404
    assert not client.site.asked


async def test_no_token_no_topic(client: HubClient) -> None:
    """A token that may only read gets no address that stays valid after the token."""
    reading = await client.server.grant("alice", "read")
    form = {"action": "topics", "method": "create", "channel": "home"}
    headers = {"Authorization": f"Bearer {reading}"}
    reply = await client.server.client.post("/microsub", data=form, headers=headers)
    assert (reply.status_code, reply.json()["error"]) == (403, "insufficient_scope")


async def named(_host: str, _port: int) -> Sequence[str]:
    return ["10.0.0.1"]


@pytest.mark.parametrize(
    "callback", ["http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest/meta-data", "http://inside.test/"]
)
async def test_callbacks_in_private_networks_get_no_requests(redis: Redis, callback: str) -> None:
    """The verification refuses them by address or by name; a name that later resolves to one gets no delivery."""
    async with hub_client(redis) as client:
        app = await client.subscribe()
        guarded = Fetcher(FetchSettings(), resolver=named)
        client.server.hub_worker = HubWorker(
            client.server.redis, client.server.parts.topics, guarded, clock=client.server.clock
        )
        assert (await client.ask(callback)).status_code == 202
        await client.publish("second")
        assert not app.deliveries
        known = await store.HubStore(client.server.redis).all_of("user alice")
        assert [one.held.callback for one in known if one.held] == [app.url]
        await guarded.aclose()


async def test_callbacks_are_on_the_ports_of_websites(redis: Redis) -> None:
    """Outside networks that the admin lists, the hub connects to no other service of a host."""
    async with hub_client(redis) as client:
        sender = Fetcher(FetchSettings(), resolver=lambda _host, _port: public())
        client.server.hub_worker = HubWorker(
            client.server.redis, client.server.parts.topics, sender, clock=client.server.clock
        )
        for port in (6379, 25):
            assert (await client.ask(f"http://somewhere.test:{port}/")).status_code == 400
        for port in (8443, 9443):
            await client.ask(f"http://somewhere.test:{port}/")
        assert (await store.hub_status(client.server.redis, client.server.now)) == {}
        tallies = await store.HubStore(client.server.redis).tallies(["somewhere.test"])
        assert tallies["somewhere.test"] == {"unverified": 2}
        await sender.aclose()


async def public() -> Sequence[str]:
    return ["192.0.2.1"]


def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callbacks get a time limit of four seconds, instead of ten: enough for an honest one on a busy machine."""
    monkeypatch.setattr(hub_worker, "ASKING", SendLimits(total=4.0, body=4096, redirects=-1))
    monkeypatch.setattr(hub_worker, "DELIVERING", SendLimits(total=4.0, body=0, redirects=-1))


async def test_a_hanging_callback_delays_no_other(client: HubClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few requests wait for its host, which then gets no more for a while; others get their deliveries meanwhile."""
    slow = [await client.subscribe(path=f"/slow{number}") for number in range(40)]
    for app in slow:
        client.site.serve(app.path, Asked.hang)
    quick = client.callback("/quick")
    url = quick.url.replace("app.test", "quick.test")
    assert (await client.ask(url)).status_code == 202
    hurried(monkeypatch)
    before = len(client.site.asked)
    await client.arrive("second")
    client.server.now += 0.2
    working = asyncio.create_task(client.server.hub_worker.run_once())
    began = time.monotonic()
    while not quick.deliveries:
        await asyncio.sleep(0.01)
        assert time.monotonic() - began < 60
    await working
    hung = len(client.site.asked) - before - 1
    assert hung <= hub_worker.REQUESTS_TO_HOST
    redis = client.server.redis
    now = client.server.now
    resting = await redis.command("ZCOUNT", keys.hub_due(), f"({now + RETRIES[0]}", now + REST)
    assert resting == len(slow) - hung  # the hub doesn't check every few seconds whether the host's pause is over
    await client.work(PUT_OFF + 1)  # the host's pause, by the machine's clock
    assert len(client.site.asked) - before - 1 == hung


async def test_another_port_of_a_host_delays_no_delivery(client: HubClient) -> None:
    """A stranger asks for a port where nothing listens; only that port gets no requests for a while."""
    app = await client.subscribe()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        elsewhere = app.url.replace(f":{client.site.port}/", f":{closed.getsockname()[1]}/")
        assert (await client.ask(elsewhere)).status_code == 202
    await client.publish("second")
    assert len(app.deliveries) == 1


@pytest.mark.parametrize("status", [200, 500])
async def test_endless_answers_are_not_read(client: HubClient, status: int) -> None:
    """Only the status of the answer to a delivery counts."""
    app = await client.subscribe()
    sent = 0

    async def endless(asked: Asked) -> None:
        nonlocal sent
        await asked.head("Content-Length: 1000000000", status=f"{status} Because")
        while sent < 100_000_000:
            await asked.send(b"a" * 65_536)
            sent += 65_536

    client.site.serve(app.path, endless)
    await client.publish("second")
    assert sent < 20_000_000
    tallies = await store.HubStore(client.server.redis).tallies(["app.test"])
    assert tallies["app.test"]["delivered" if status == 200 else "failed"] == 1


async def test_a_flood_of_subscriptions_has_an_end(client: HubClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits per topic and host, topic, owner, and host; existing subscriptions can be renewed and ended."""
    monkeypatch.setattr(store, "MOST_OF_TOPIC_ON_HOST", 3)
    monkeypatch.setattr(store, "MOST_OF_TOPIC", 5)
    apps = [await client.subscribe(path=f"/app{number}") for number in range(3)]
    assert (await client.ask(client.callback("/more").url)).status_code == 429
    assert (await client.ask(apps[0].url, secret="another")).status_code == 202
    others = [f"http://host{number}.test:{client.site.port}/app0" for number in range(3)]
    assert [(await client.ask(url)).status_code for url in others] == [202, 202, 429]
    assert (await client.ask(apps[1].url, mode="unsubscribe")).status_code == 202
    assert (await client.ask(others[2])).status_code == 202
    monkeypatch.setattr(store, "MOST_OF_OWNER", 5)
    assert (await client.ask(apps[0].url, client.addresses["rss"])).status_code == 429
    monkeypatch.setattr(store, "MOST_ON_HOST", 2)
    monkeypatch.setattr(store, "MOST_OF_OWNER", 50)
    assert (await client.ask(client.callback("/x").url, client.addresses["rss"])).status_code == 429
    assert (await client.ask(apps[0].url, mode="unsubscribe")).status_code == 202


async def test_unconfirmed_requests_are_deleted(client: HubClient) -> None:
    """They are deleted once their callbacks were asked."""
    for number in range(30):
        await client.ask(client.site.url(f"/{number}", "nobody.test"))
    assert not await client.server.redis.command("EXISTS", "user:{alice}:hub")
    assert not await client.server.redis.command("EXISTS", "{hub}:due")
    assert set(await client.server.redis.command("HKEYS", "{hub}:claims")) <= {b"*", b"* at"}
    await client.server.hub_worker.look_at_all(client.server.now)
    assert not await client.server.redis.command("EXISTS", "hub:owners")


async def test_unconfirmed_hosts_are_soon_forgotten(client: HubClient) -> None:
    """A stranger can make up any number of hosts; the counts of a subscriber's host stay for months."""
    app = await client.subscribe()
    app.confirms = False
    for url in (app.url, client.site.url("/x", "nobody.test")):
        await client.ask(url)
    known, unknown = (keys.hub_tallies(name) for name in (host_of(app.url), "nobody.test"))
    assert 0 < await client.server.redis.command("TTL", unknown) <= store.UNVERIFIED_KEPT
    assert await client.server.redis.command("TTL", known) > store.TALLIES_KEPT - 60


async def test_no_header_is_injected_by_a_callback_or_topic(client: HubClient) -> None:
    """Line breaks and other characters that no address contains are refused."""
    app = client.callback()
    for callback in (app.url + "\r\nX: y", app.url + "?a=\n", app.url + "\x00", app.url + "/ä"):
        assert (await client.ask(callback)).status_code == 400
    assert (await client.ask(app.url, client.topic + "\r\nX: y")).status_code == 400
    assert not client.site.asked


async def test_no_secret_is_logged(client: HubClient) -> None:
    """The log has no address of a callback or topic, and no secret that signs deliveries."""
    with structlog.testing.capture_logs() as logs:
        topic = (await client.alice.post(action="topics", method="create", channel="home"))["topic"]
        app = await client.subscribe(topic, path="/unguessable", secret="s3cr3t")
        app.answer = Answer(status=500)
        await client.publish("second")
        await client.ask(app.url, topic + "x")
        await client.get(topic + "x")
        await client.alice.post(action="topics", method="revoke", channel="home")
        await client.work(100)
    text = repr(logs)
    for secret in (topic.rpartition(".")[0].rpartition(".")[2], "unguessable", "s3cr3t"):
        assert secret not in text


async def test_a_loop_of_servers_ends(client: HubClient) -> None:
    """A channel that follows its own topic through its own hub has each post once: a second delivery isn't news."""
    app = await client.subscribe()
    await client.publish("second")
    count = len(app.bodies)
    for _ in range(5):
        await client.server.publish("https://blog.example/feed")
        await client.work()
    assert len(app.bodies) == count
