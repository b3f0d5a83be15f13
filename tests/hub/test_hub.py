"""Conformance of our hub to https://www.w3.org/TR/websub/; docs/reference/websub.md names the tests."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from urllib.parse import parse_qsl

import pytest

from microsub.base.errors import InvalidRequest
from microsub.formats.documents import FORMATS
from microsub.hub import topics
from microsub.hub.store import hub_status
from microsub.hub.subscriptions import RETRIES, request_of
from microsub.redis.protocol import Redis
from tests.support.readers import FEED, OTHER, posts
from tests.support.subscriber import BASE, HubClient, hub_client
from tests.support.threads import HeldWork
from tests.support.web import Answer, Asked

HOUR, DAY = 3600, 86_400


@pytest.fixture
async def client(redis: Redis) -> AsyncIterator[HubClient]:
    async with hub_client(redis) as made:
        yield made


async def test_a_verified_subscriber_is_sent_what_is_published(client: HubClient) -> None:
    """The delivery has the topic's exact bytes and type, with hub and topic in `Link`."""
    app = await client.subscribe()
    assert not app.deliveries
    await client.publish("second")
    (sent,) = app.deliveries
    got = await client.get(client.topic)
    assert sent.body == got.content
    assert [item["title"] for item in got.json()["items"]] == ["second", "first"]
    assert sent.headers["content-type"] == got.headers["content-type"] == "application/feed+json"
    assert sent.headers["link"] == f'<{BASE}/hub>; rel="hub", <{client.topic}>; rel="self"'
    assert "x-hub-signature" not in sent.headers
    await client.work(3)
    assert len(app.deliveries) == 1


async def test_documents_of_one_owner_are_written_one_at_a_time(
    client: HubClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many at once kept requests of others waiting for a thread for most of a second."""
    reply = await client.alice.post(action="topics", method="create", channel="home")
    held = HeldWork(FORMATS["json"].write)
    monkeypatch.setattr(topics, "FORMATS", {"json": replace(FORMATS["json"], write=held)})
    asked = [asyncio.create_task(client.get(reply["topic"])) for _ in range(4)]
    await asyncio.to_thread(held.begun.wait, 30)
    await client.alice.timeline("home")
    held.go_on.set()
    assert [got.status_code for got in await asyncio.gather(*asked)] == [200] * 4
    assert (held.calls, held.together) == (4, 1)


@pytest.mark.parametrize("form", ["rss", "atom", "json", "html"])
async def test_each_format_is_a_topic_and_names_the_hub(client: HubClient, form: str) -> None:
    """Headers and document name the hub; a delivery is the document in that format."""
    topic = client.addresses[form]
    got = await client.get(topic)
    links = got.headers["link"]
    assert f'<{BASE}/hub>; rel="hub"' in links
    assert f'<{topic}>; rel="self"' in links
    assert f"{BASE}/hub".encode() in got.content
    assert topic.encode() in got.content
    app = await client.subscribe(topic)
    await client.publish("second")
    (sent,) = app.bodies
    assert sent == (await client.get(topic)).content
    assert sent != got.content


async def test_a_channels_topic_is_unguessable(client: HubClient) -> None:
    """The topic is a JSON Feed of the newest items, at an address that the user creates, renews and revokes."""
    made = await client.alice.post(action="topics", method="create", channel="home")
    assert made == {"channel": "home", "hub": f"{BASE}/hub", "topic": made["topic"]}
    assert await client.alice.post(action="topics", method="create", channel="home") == made
    assert len(made["topic"].rpartition("/")[2]) == len("home.") + 43 + len(".json")
    app = await client.subscribe(made["topic"])
    await client.publish("second", "third")
    (sent,) = app.deliveries
    got = await client.get(made["topic"])
    assert sent.body == got.content
    assert got.json()["feed_url"] == made["topic"]
    assert [item["title"] for item in got.json()["items"]] == ["second", "third", "first"]
    assert got.headers["link"] == f'<{BASE}/hub>; rel="hub", <{made["topic"]}>; rel="self"'
    renewed = await client.alice.post(action="topics", method="renew", channel="home")
    assert renewed["topic"] != made["topic"]
    assert (await client.get(made["topic"])).status_code == 404
    await client.work()
    assert app.denials[0]["hub.topic"] == made["topic"]
    assert "topic" not in await client.alice.post(action="topics", method="revoke", channel="home")
    assert (await client.get(renewed["topic"])).status_code == 404


async def test_moved_saved_and_published_items_are_delivered(client: HubClient) -> None:
    """Topics that change without a delivery of posts are checked immediately as well."""
    later = (await client.alice.post(action="topics", method="create", channel="later"))["topic"]
    app = await client.subscribe(later)
    (item,) = await client.alice.ids("home")
    await client.alice.post(action="timeline", method="move", channel="later", **{"entry[]": [item]})
    await client.work()
    assert b'"first"' in app.bodies[-1]
    other = await client.subscribe(path="/other")
    await client.alice.post(action="outputs", method="publish", output="picks", **{"entry[]": [item]})
    await client.work()
    assert len(other.deliveries) == 1


async def test_edits_are_delivered(client: HubClient) -> None:
    """A post that its publisher edited changes the topic."""
    app = await client.subscribe()
    await client.publish("second")
    client.server.now += 1
    await client.server.publish(FEED, *posts("second", at=client.server.now - 20, text="other words"))
    await client.work()
    assert len(app.bodies) == 2
    assert b"other words" in app.bodies[1]


async def test_stored_feeds_are_topics_where_the_admin_allows_it(redis: Redis) -> None:
    """The topic is named by the feed's URL. Private feeds are no topics."""
    async with hub_client(redis, hub_feeds=True) as client:
        topic = f"{BASE}/topics/feed.json?url=https%3A%2F%2Fblog.example%2Ffeed"
        app = await client.subscribe(topic)
        await client.publish("second")
        (sent,) = app.bodies
        assert sent == (await client.get(topic)).content
        assert b'"second"' in sent
        private = "https://blog.example/feed?token=abcdefgh12345678"
        await client.server.publish(private, *posts("secret"))
        assert (await client.get(topic.replace("feed.json", "feed.jsonx"))).status_code == 404
        for url in (private, "https://nobody.example/feed", ""):
            assert (await client.server.client.get(f"{BASE}/topics/feed.json", params={"url": url})).status_code == 404
            assert (await client.ask(app.url, f"{BASE}/topics/feed.json?url={url}")).status_code == 404


async def test_stored_feeds_are_no_topics_unless_allowed(client: HubClient) -> None:
    """Otherwise anybody could find out which feeds are followed here."""
    topic = f"{BASE}/topics/feed.json?url=https%3A%2F%2Fblog.example%2Ffeed"
    assert (await client.get(topic)).status_code == 404
    assert (await client.ask(client.callback().url, topic)).status_code == 404


# --- requests (5.1)


async def test_a_request_is_accepted_with_202(client: HubClient) -> None:
    """Nothing is delivered before the callback has confirmed."""
    app = client.callback()
    form = {"hub.mode": "subscribe", "hub.callback": app.url, "hub.topic": client.topic}
    assert (await client.post(form)).status_code == 202
    assert not app.verifications
    app.confirms = False
    await client.work()
    assert len(app.verifications) == 1
    await client.publish("second")
    assert not app.deliveries


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"hub.mode": ""}, 400),
        ({"hub.mode": "other"}, 400),
        ({"hub.callback": ""}, 400),
        ({"hub.callback": "ftp://app.test/"}, 400),
        ({"hub.callback": "https://app.test/ with blanks"}, 400),
        ({"hub.callback": "https://app.test/#part"}, 400),
        ({"hub.callback": "https://app.test/#"}, 400),
        ({"hub.callback": "https://user:word@app.test/"}, 400),
        ({"hub.callback": "https://app.test/" + "a" * 2048}, 400),
        ({"hub.topic": ""}, 400),
        ({"hub.topic": "https://reader.example/" + "a" * 2048}, 400),
        ({"hub.topic": "https://elsewhere.example/feed"}, 404),
        ({"hub.topic": f"{BASE}/feeds/alice.{'a' * 32}.rss"}, 404),
        ({"hub.secret": "a" * 200}, 400),
        ({"hub.secret": "ä" * 100}, 400),
    ],
)
async def test_errors_are_plain_text(client: HubClient, changed: dict[str, str], status: int) -> None:
    """4xx with the reason, immediately and without a request to the callback."""
    app = client.callback()
    reply = await client.post({"hub.mode": "subscribe", "hub.callback": app.url, "hub.topic": client.topic, **changed})
    assert (reply.status_code, reply.headers["content-type"]) == (status, "text/plain; charset=utf-8")
    assert reply.text
    await client.work()
    assert not client.site.asked


async def test_unknown_parameters_are_ignored(client: HubClient) -> None:
    """Extensions that this hub doesn't know are harmless; of a repeated parameter, the first counts."""
    app = await client.subscribe(foo="bar", **{"verify": "async"})
    await client.publish("second")
    assert len(app.deliveries) == 1


async def test_the_hub_accepts_only_forms(client: HubClient) -> None:
    """Other methods and bodies are refused."""
    assert (await client.server.client.get("/hub")).status_code == 405
    assert (await client.server.client.post("/hub", json={"hub.mode": "subscribe"})).status_code == 400
    assert (await client.server.client.post("/hub", data={"hub.mode": "a" * 20_000})).status_code == 413


async def test_a_secret_of_199_bytes_signs_deliveries(client: HubClient) -> None:
    """The signature is `sha256=` and the HMAC of the body as sent."""
    secret = "s" * 199
    app = await client.subscribe(secret=secret)
    await client.publish("second")
    (sent,) = app.deliveries
    expected = hmac.new(secret.encode(), sent.body, hashlib.sha256).hexdigest()
    assert sent.headers["x-hub-signature"] == f"sha256={expected}"


@pytest.mark.parametrize("asked", ["soon", "-1", "0", "1e9", "1.5", " 60", "9" * 11, "9" * 400, "\u0663"])
async def test_a_lease_that_is_no_whole_number_is_refused(client: HubClient, asked: str) -> None:
    """The reply names the parameter and its value; a request to end a subscription may have any."""
    reply = await client.ask(client.callback().url, lease_seconds=asked)
    assert (reply.status_code, len(client.site.asked)) == (400, 0)
    assert "'hub.lease_seconds' can't be '" in reply.text
    assert len(reply.text) < 300
    ending = {"hub.mode": "unsubscribe", "hub.callback": "https://a.example/", "hub.topic": client.topic}
    assert (await client.post({**ending, "hub.lease_seconds": asked})).status_code == 404


def test_a_callback_at_a_forbidden_port_is_refused() -> None:
    """The reply names the port. Ports above 1,023 are for servers whose admin lists networks."""
    form = {"hub.mode": "subscribe", "hub.topic": "https://reader.example/t"}
    for port, strict, lax in ((443, True, True), (8443, False, True), (22, False, False), (6379, False, False)):
        asked = {**form, "hub.callback": f"https://app.example:{port}/"}
        for any_port, good in ((False, strict), (True, lax)):
            if good:
                assert request_of(asked, "", any_port=any_port).callback == asked["hub.callback"]
                continue
            with pytest.raises(InvalidRequest, match=f"'hub.callback': port {port} can't be used"):
                request_of(asked, "", any_port=any_port)


@pytest.mark.parametrize(
    ("asked", "granted"),
    [(None, 10 * DAY), ("", 10 * DAY), (1, HOUR), (DAY, DAY), (9_999_999_999, 14 * DAY)],
)
async def test_leases_are_sent_and_enforced(client: HubClient, asked: int | str | None, granted: int) -> None:
    """From one hour to 14 days; nothing is delivered after the lease has ended."""
    app = await client.subscribe(**({} if asked is None else {"lease_seconds": asked}))
    assert app.verifications[0]["hub.lease_seconds"] == str(granted)
    client.server.now += granted - 60
    await client.publish("second")
    assert len(app.deliveries) == 1
    client.server.now += 60
    await client.publish("third")
    assert len(app.deliveries) == 1
    assert not await hub_status(client.server.redis, client.server.now)


# --- verification (5.3)


async def test_verification_has_mode_topic_challenge_and_lease(client: HubClient) -> None:
    """The request contains mode, unchanged topic, a new challenge each time, and the lease."""
    app = await client.subscribe(lease_seconds=DAY)
    await client.ask(app.url, mode="unsubscribe")
    first, second = app.verifications
    assert first["hub.challenge"] != second["hub.challenge"]
    del first["hub.challenge"], second["hub.challenge"]
    assert first == {"hub.mode": "subscribe", "hub.topic": client.topic, "hub.lease_seconds": str(DAY)}
    assert second == {"hub.mode": "unsubscribe", "hub.topic": client.topic}


async def test_the_callbacks_own_query_is_kept(client: HubClient) -> None:
    """The verification appends its parameters to the unchanged query; deliveries use the callback as given."""
    app = client.callback()
    await client.ask(f"{app.url}?key=a%20b&key=&x=1")
    place, _, query = client.site.asked[0].target.partition("?")
    assert place == "/callback"
    assert query.startswith("key=a%20b&key=&x=1&hub.mode=subscribe&")
    await client.publish("second")
    assert app.deliveries[0].target == "/callback?key=a%20b&key=&x=1"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"something else"),
        Answer(b""),
        Answer(b"no", 404),
        Answer(b"", 302, [("Location", "/elsewhere")]),
        Answer(b"", 500),
        Answer(b"a" * 10_000),
    ],
)
async def test_anything_but_the_challenge_with_2xx_is_no_confirmation(client: HubClient, answer: Answer) -> None:
    """Nothing changes, and the callback isn't asked again."""
    client.site.serve("/silent", answer)
    client.site.serve("/elsewhere", lambda asked: Answer(dict(parse_qsl(asked.target))["hub.challenge"].encode()))
    await client.ask(client.site.url("/silent", "app.test"))
    await client.publish("second")
    await client.work(HOUR)
    assert [asked.method for asked in client.site.asked] == ["GET"]


async def test_a_challenge_with_an_error_is_no_confirmation(client: HubClient) -> None:
    """The status must be 2xx as well."""

    def no(asked: Asked) -> Answer:
        return Answer(asked.query["hub.challenge"].encode(), 404)

    client.site.serve("/no", no)
    await client.ask(client.site.url("/no", "app.test"))
    await client.publish("second")
    assert client.site.count("/no") == 0
    assert len(client.site.asked) == 1


async def test_a_new_request_replaces_the_old_one_once_it_is_verified(client: HubClient) -> None:
    """For the same callback and topic, the new lease and secret apply, and each change is delivered once."""
    app = await client.subscribe(secret="old")
    app.confirms = False
    await client.ask(app.url, secret="forged")
    await client.publish("second")
    assert signed_with(app.deliveries[-1], "old")
    app.confirms = True
    await client.ask(app.url, secret="new")
    await client.publish("third")
    assert len(app.deliveries) == 2
    assert signed_with(app.deliveries[-1], "new")
    await client.ask(app.url)
    await client.publish("fourth")
    assert "x-hub-signature" not in app.deliveries[-1].headers
    assert len(app.deliveries) == 3


def signed_with(asked: object, secret: str) -> bool:
    body, sent = asked.body, asked.headers["x-hub-signature"]  # type: ignore[attr-defined]
    return bool(sent == "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest())


async def test_other_callbacks_and_topics_are_other_subscriptions(client: HubClient) -> None:
    """One callback may subscribe to several topics, and one topic may have several callbacks."""
    app = await client.subscribe()
    await client.ask(app.url, client.addresses["rss"])
    other = await client.subscribe(path="/other")
    await client.publish("second")
    assert sorted(one.headers["content-type"][:20] for one in app.deliveries) == [
        "application/feed+jso",
        "application/rss+xml;",
    ]
    assert len(other.deliveries) == 1


async def test_unsubscribing_is_verified_too(client: HubClient) -> None:
    """Only the callback's owner can end a subscription."""
    app = await client.subscribe()
    app.confirms = False
    assert (await client.ask(app.url, mode="unsubscribe")).status_code == 202
    await client.publish("second")
    assert len(app.deliveries) == 1
    app.confirms = True
    await client.ask(app.url, mode="unsubscribe")
    await client.publish("third")
    assert len(app.deliveries) == 1
    asked = len(client.site.asked)
    assert (await client.ask(app.url, mode="unsubscribe")).status_code == 404
    assert len(client.site.asked) == asked


# --- denial (5.2)


@pytest.mark.parametrize("end", ["delete", "renew", "revoke", "disable", "channel"])
async def test_the_end_of_a_topic_is_a_denial(client: HubClient, end: str) -> None:
    """`hub.mode=denied` is sent once, with the topic and the reason, within a minute."""
    topic = None
    if end == "channel":
        topic = (await client.alice.post(action="topics", method="create", channel="home"))["topic"]
    app = await client.subscribe(topic)
    if end == "disable":
        await client.server.accounts.disable_user("alice", client.server.now)
        await client.server.hub_worker.look_at_all(client.server.now)
    elif end == "channel":
        await client.alice.post(action="channels", method="delete", channel="home")
    else:
        await client.alice.post(action="outputs", method=end, output="picks")
    await client.work()
    reason = "there is no such topic any more"
    assert app.denials == [{"hub.mode": "denied", "hub.topic": topic or client.topic, "hub.reason": reason}]
    assert not app.deliveries
    await client.server.hub_worker.look_at_all(client.server.now)
    await client.work()
    assert len(app.denials) == 1


# --- delivery (7)


@pytest.mark.parametrize("status", [200, 299])
async def test_2xx_is_success(client: HubClient, status: int) -> None:
    app = await client.subscribe()
    app.answer = Answer(status=status)
    await client.publish("second")
    await client.work(2 * HOUR)
    assert len(app.deliveries) == 1


@pytest.mark.parametrize("status", [302, 308, 404, 503])
async def test_anything_else_is_tried_again(client: HubClient, status: int) -> None:
    """This includes redirects, which aren't followed; the retry sends the topic's current document."""
    app = await client.subscribe()
    app.answer = Answer(status=status, headers=[("Location", client.site.url("/elsewhere", "app.test"))])
    await client.publish("second")
    await client.publish("third")
    assert len(app.deliveries) == 1
    assert not client.site.count("/elsewhere")
    app.answer = Answer(status=200)
    await client.work(RETRIES[0])
    assert len(app.deliveries) == 2
    assert app.bodies[-1] == (await client.get(client.topic)).content
    await client.work(2 * HOUR)
    assert len(app.deliveries) == 2


async def test_failed_deliveries_back_off_and_keep_the_subscription(client: HubClient) -> None:
    """After the last retry the delivery is given up, but the next change is delivered."""
    app = await client.subscribe()
    app.answer = Answer(status=500)
    await client.publish("second")
    began, tried = client.server.now, [client.server.now]
    while client.server.now < began + 3 * HOUR:
        before = len(app.deliveries)
        await client.work(5)
        tried += [client.server.now] * (len(app.deliveries) - before)
    pauses = [after - before for before, after in pairwise(tried)]
    assert len(pauses) == len(RETRIES)
    assert all(pause >= wanted for pause, wanted in zip(pauses, RETRIES, strict=True))
    assert HOUR - 60 <= tried[-1] - began <= HOUR + 60
    app.answer = Answer(status=200)
    await client.publish("third")
    assert len(app.deliveries) == len(RETRIES) + 2
    counts = (await hub_status(client.server.redis, client.server.now))["app.test"].counts
    assert counts == {"verified": 1, "failed": len(RETRIES), "given_up": 1, "delivered": 1}


async def test_410_ends_the_subscription(client: HubClient) -> None:
    app = await client.subscribe()
    app.answer = Answer(status=410)
    await client.publish("second")
    app.answer = Answer(status=200)
    await client.publish("third")
    await client.work(2 * HOUR)
    assert len(app.deliveries) == 1


async def test_changes_within_a_moment_are_one_delivery(client: HubClient) -> None:
    """Several changes within a moment are delivered together."""
    app = await client.subscribe()
    for name in ("second", "third", "fourth"):
        await client.server.publish(FEED, *posts(name, at=client.server.now - 10))
    await client.work()
    (sent,) = app.bodies
    assert all(name in sent for name in (b'"second"', b'"third"', b'"fourth"'))


async def test_changes_during_verification_are_delivered(client: HubClient) -> None:
    """No change after the request is missed."""
    app = client.callback()
    await client.post({"hub.mode": "subscribe", "hub.callback": app.url, "hub.topic": client.topic})
    await client.server.publish(FEED, *posts("second", at=client.server.now - 10))
    for _ in range(3):
        await client.work(2)
    assert len(app.deliveries) == 1


async def test_deliveries_are_no_impressions(client: HubClient) -> None:
    """Only a 200 reply to a request is an impression (`docs/decisions/outputs.md`)."""
    made = await client.alice.post(action="outputs", method="create", output="few", channel="home", max_impressions=1)
    app = await client.subscribe(made["addresses"]["json"])
    await client.publish("second")
    assert len(app.deliveries) == 1
    got = await client.get(made["addresses"]["json"])
    assert [item["title"] for item in got.json()["items"]] == ["second", "first"]
    await client.server.hub_worker.look_at_all(client.server.now)
    await client.work()
    assert len(app.deliveries) == 1


# --- publishing


@pytest.mark.parametrize("name", ["hub.url", "hub.topic"])
async def test_a_notice_has_topics_looked_at(client: HubClient, name: str) -> None:
    """Changes that weren't noticed are delivered; without a change nothing is sent."""
    app = await client.subscribe()
    assert (await client.post({"hub.mode": "publish", name: client.topic})).status_code == 202
    await client.work()
    assert not app.deliveries
    client.server.delivery.delivered = None
    await client.publish("second")
    assert not app.deliveries
    for _ in range(3):
        assert (await client.post({"hub.mode": "publish", name: client.topic})).status_code == 202
    await client.work()
    assert len(app.deliveries) == 1


async def test_notices_for_other_topics_are_refused(client: HubClient) -> None:
    """Too many notices for the same topic are refused as well."""
    assert (await client.post({"hub.mode": "publish", "hub.url": "https://blog.example/feed"})).status_code == 404
    assert (await client.post({"hub.mode": "publish"})).status_code == 400
    statuses = [(await client.post({"hub.mode": "publish", "hub.url": client.topic})).status_code for _ in range(61)]
    assert statuses == [202] * 60 + [429]


async def test_without_an_address_there_is_no_hub(redis: Redis) -> None:
    """Subscribers couldn't reach the topics, so documents name no hub."""
    async with hub_client(redis, base_url=None) as client:
        assert (await client.post({"hub.mode": "subscribe"})).status_code == 404
        assert "link" not in (await client.get(client.topic)).headers


async def test_missed_changes_are_found_within_a_minute(client: HubClient) -> None:
    """The check of all owners doesn't depend on a recorded change."""
    app = await client.subscribe()
    client.server.delivery.delivered = None
    await client.publish("second")
    assert not app.deliveries
    await client.server.hub_worker.look_at_all(client.server.now)
    await client.work()
    assert len(app.deliveries) == 1


async def test_a_user_who_is_deleted_leaves_nothing(client: HubClient) -> None:
    """The subscriptions to their topics are deleted."""
    await client.subscribe()
    await client.subscribe((await client.alice.post(action="topics", method="create", channel="home"))["topic"])
    await client.server.accounts.disable_user("alice", client.server.now)
    (user,) = [one for one in await client.server.accounts.users() if one.name == "alice"]
    assert await client.server.accounts.delete_disabled(user)
    assert not await client.server.redis.command("EXISTS", "user:{alice}:hub")
    await client.server.hub_worker.look_at_all(client.server.now)
    await client.work()
    assert not await client.server.redis.command("SMEMBERS", "hub:owners")
    assert set(await client.server.redis.command("HKEYS", "{hub}:claims")) <= {b"*", b"* at"}
    assert (await client.get(client.topic)).status_code == 404


async def test_posts_of_others_reach_no_topic(client: HubClient) -> None:
    """Bob's posts aren't delivered to Alice's subscribers."""
    app = await client.subscribe()
    bob = await client.server.reader("bob", "home")
    await bob.post(action="follow", channel="home", url=OTHER)
    await client.server.publish(OTHER, *posts("secret", host="other.example"))
    await client.work()
    assert not app.deliveries
