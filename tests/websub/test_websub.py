"""WebSub's requirements for subscribers (https://www.w3.org/TR/websub/): docs/reference/websub.md names each test."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from microsub.base.clock import DAY, HOUR
from microsub.websub.subscriptions import signed
from tests.support.push import BASE, Push
from tests.support.web import Answer


async def test_a_feed_is_subscribed_and_its_posts_arrive(push: Push) -> None:
    """After discovery, request, verification and delivery, the post is in the timeline without a poll."""
    feed = await push.subscribe()
    asked = push.site.count("/feed")
    assert await push.deliver(push.document("second")) == [202]
    assert await push.shown() == ["second", "first"]
    assert push.site.count("/feed") == asked
    health = await push.health(feed)
    assert (health.pushed, health.posts_pushed, health.posts_polled) == (True, 1, 0)


async def test_the_request_is_a_form_with_all_that_a_hub_needs(push: Push) -> None:
    """5.1: a form-encoded POST (the test hub checks that) with callback, mode, topic, lease and secret."""
    await push.subscribe()
    (form,) = push.hub.requests
    assert set(form) == {"hub.callback", "hub.mode", "hub.topic", "hub.lease_seconds", "hub.secret"}
    assert form["hub.mode"] == "subscribe"
    assert form["hub.topic"] == push.topic
    assert form["hub.callback"].startswith(f"{BASE}/websub/")
    assert 32 <= len(form["hub.secret"].encode()) < 200


async def test_the_topic_is_what_the_feed_calls_itself(push: Push) -> None:
    """4: the topic is `rel=self`, not the requested URL."""
    topic = "https://canonical.test/feed"
    push.site.serve_document("/feed", push.hub.document(topic, "first"))
    await push.poll(await push.it.follow(push.topic))
    await push.look()
    assert [form["hub.topic"] for form in push.hub.requests] == [topic]


async def test_link_headers_come_first(push: Push) -> None:
    """4: `Link` headers take precedence over the document."""
    headers = [("Link", f'<{push.hub.url}>; rel="hub"'), ("Link", '<https://real.test/>; rel="self"')]
    body = push.document().replace(push.hub.url.encode(), b"https://other.test/")
    push.site.serve("/feed", Answer(body, headers=[("Content-Type", "application/rss+xml"), *headers]))
    await push.poll(await push.it.follow(push.topic))
    await push.look()
    assert [form["hub.topic"] for form in push.hub.requests] == ["https://real.test/"]


async def test_pages_atom_and_json_feeds_are_subscribed_too(push: Push) -> None:
    """4: a page names hub and topic in its head; Atom in links of the feed; a JSON Feed has `hubs`."""
    page, atom, json = (push.site.url(f"/{name}", f"{name}.test") for name in ("page", "atom", "json"))
    links = f'<link rel="hub" href="{push.hub.url}"/><link rel="self" href="{atom}"/>'
    feed = f'<feed xmlns="http://www.w3.org/2005/Atom"><title>A</title><id>urn:a</id>{links}</feed>'
    push.site.serve_document("/atom", feed.encode(), "application/atom+xml")
    html = (
        f'<!DOCTYPE html><title>P</title><link rel="hub" href="{push.hub.url}"><link rel="self" href="{page}">'
        '<body class="h-feed"><div class="h-entry"><a class="u-url p-name" href="/1">one</a></div>'
    )
    push.site.serve_document("/page", html.encode(), "text/html")
    push.site.serve_document(
        "/json",
        f'{{"version": "https://jsonfeed.org/version/1.1", "title": "J", "feed_url": "{json}",'
        f'"hubs": [{{"type": "WebSub", "url": "{push.hub.url}"}}], "items": []}}'.encode(),
        "application/feed+json",
    )
    for url in (page, atom, json):
        await push.poll(await push.it.follow(url))
    await push.look()
    assert sorted(form["hub.topic"] for form in push.hub.requests) == sorted((page, atom, json))
    body = html.replace("</div>", '</div><div class="h-entry"><a class="u-url p-name" href="/2">two</a></div>')
    assert await push.hub.publish(page, body.encode(), "text/plain") == [202]
    await push.it.stages.run_once()
    assert "two" in await push.shown()


@pytest.mark.parametrize("status", ["302 Found", "301 Moved Permanently"])
async def test_a_topic_that_redirects_is_subscribed_where_it_leads(push: Push, status: str) -> None:
    """4: the document behind the redirect names hub and topic."""
    push.site.serve("/old", lambda asked: asked.redirect("/feed", status))
    push.publish()
    await push.poll(await push.it.follow(push.site.url("/old", "blog.test")))
    await push.look()
    assert [form["hub.topic"] for form in push.hub.requests] == [push.topic]
    assert await push.deliver(push.document("second")) == [202]
    assert (await push.shown())[0] == "second"


async def test_a_subscription_migrates_by_a_redirect(push: Push) -> None:
    """6.1: the new topic is subscribed to and the old one unsubscribed."""
    feed = await push.subscribe()
    new = push.site.url("/new", "blog.test")
    push.site.serve("/feed", lambda asked: asked.redirect("/new", "301 Moved Permanently"))
    push.site.serve_document("/new", push.hub.document(new, "first"))
    await push.poll(feed)
    await push.look()
    await push.look()
    assert [one.topic for one in push.hub.subscriptions.values()] == [new]
    assert await push.hub.publish(new, push.hub.document(new, "second", "first")) == [202]
    await push.it.stages.run_once()
    assert (await push.shown())[0] == "second"


async def test_each_request_has_a_callback_and_a_secret_of_its_own(push: Push) -> None:
    """5.1: they are unguessable and unique for each subscription."""
    for name in ("a", "b", "c"):
        topic = push.site.url(f"/{name}", "blog.test")
        push.site.serve_document(f"/{name}", push.hub.document(topic, name))
        await push.poll(await push.it.follow(topic))
    await push.look()
    for member in ("hub.callback", "hub.secret"):
        assert len({form[member] for form in push.hub.requests}) == 3
    assert all(len(urlsplit(form["hub.callback"]).path.rpartition(".")[2]) == 43 for form in push.hub.requests)


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
async def test_redirects_are_followed_with_the_post(push: Push, status: str) -> None:
    """5.1: 307 and 308 keep method and body."""
    push.site.serve("/old", lambda asked: asked.redirect(push.hub.path, status))
    push.site.serve_document("/feed", push.document().replace(b"/hub", b"/old"))
    feed = await push.it.follow(push.topic)
    await push.poll(feed)
    await push.look()
    assert (await push.health(feed)).subscribed
    assert await push.deliver(push.document("second")) == [202]


@pytest.mark.parametrize("status", [301, 303])
async def test_other_redirects_are_refusals(push: Push, status: int) -> None:
    """5.1: a redirect that may drop the form isn't followed."""
    push.hub.answer = lambda asked, form: Answer(status=status, headers=[("Location", "/elsewhere")])
    feed = await push.subscribe()
    assert push.site.count("/elsewhere") == 0
    assert (await push.health(feed)).why == f"the hub answered {status}"


async def test_202_decides_nothing_yet(push: Push) -> None:
    """5.1: before the verification there is no subscription, and deliveries are refused."""
    push.hub.verifies = False
    feed = await push.subscribe()
    health = await push.health(feed)
    assert (health.subscribed, health.why) == (False, "waiting for the hub to verify the subscription")
    (form,) = push.hub.requests
    reply = await push.hub.deliver(form["hub.callback"], push.document("early"), form["hub.secret"])
    assert reply.status_code == 410
    await push.it.stages.run_once()
    assert await push.shown() == ["first"]


async def test_a_verification_gets_the_challenge_back(push: Push) -> None:
    """5.3: 2xx with only the challenge, as text that no browser takes for a page."""
    push.hub.verifies = False
    await push.subscribe()
    (form,) = push.hub.requests
    query = {
        "hub.mode": "subscribe",
        "hub.topic": push.topic,
        "hub.challenge": "<b>é1</b>",
        "hub.lease_seconds": "7200",
    }
    reply = await push.hub.http.get(form["hub.callback"], params=query)
    assert (reply.status_code, reply.text) == (200, "<b>é1</b>")
    assert reply.headers["content-type"].startswith("text/plain")
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("mode", "topic", "challenge"),
    [
        ("subscribe", "https://other.test/", "x"),
        ("unsubscribe", "", "x"),
        ("SUBSCRIBE", "", "x"),
        ("publish", "", "x"),
        ("", "", "x"),
        ("subscribe", "", ""),
        ("denied", "https://other.test/", ""),
    ],
)
async def test_unrequested_verifications_are_404(push: Push, mode: str, topic: str, challenge: str) -> None:
    """5.3.1: mode and topic must be those of the request."""
    push.hub.verifies = False
    feed = await push.subscribe()
    (form,) = push.hub.requests
    query = {
        "hub.mode": mode,
        "hub.topic": topic or push.topic,
        "hub.challenge": challenge,
        "hub.lease_seconds": "9999",
    }
    reply = await push.hub.http.get(form["hub.callback"], params=query)
    assert (reply.status_code, (await push.health(feed)).subscribed) == (404, False)
    assert reply.text != "x"


@pytest.mark.parametrize(
    ("granted", "counts"), [(60, HOUR), (HOUR, HOUR), (5 * DAY, 5 * DAY), (400 * DAY, 14 * DAY), (0, HOUR)]
)
async def test_the_lease_of_the_hub_counts(push: Push, granted: float, counts: float) -> None:
    """5.1: the hub decides the lease, from one hour to 14 days."""
    push.it.now = push.it.now
    push.hub.lease = int(granted)
    feed = await push.subscribe()
    assert (await push.health(feed)).lease_until == pytest.approx(push.it.now + counts, abs=0.01)


async def test_a_lease_is_renewed_at_half_of_it_with_a_new_callback(push: Push) -> None:
    """5.1: the earlier callback works until the new one is verified, and is then unsubscribed."""
    feed = await push.subscribe()
    (old,) = push.hub.asked_for("subscribe")
    push.it.clock.advance(4.9 * DAY)
    await push.look()
    assert len(push.hub.asked_for("subscribe")) == 1
    push.it.clock.advance(0.2 * DAY)
    push.hub.verifies = False
    await push.look()
    new = push.hub.asked_for("subscribe")[1]
    assert new["hub.callback"] != old["hub.callback"]
    assert new["hub.secret"] != old["hub.secret"]
    assert await push.deliver(push.document("by the old one")) == [202]
    assert "by the old one" in await push.shown()
    push.hub.verifies = True
    push.it.clock.advance(HOUR)
    await push.look()
    await push.look()
    assert [form["hub.callback"] for form in push.hub.asked_for("unsubscribe")] == [old["hub.callback"]]
    assert len(push.hub.callbacks) == 1
    assert await push.deliver(push.document("by the new one")) == [202]
    assert (await push.shown())[0] == "by the new one"
    assert len((await push.subscriptions(feed)).callbacks) <= 2


async def test_a_renewal_that_fails_breaks_nothing(push: Push) -> None:
    """A hub that refuses the renewal still delivers to the first callback until its lease ends."""
    feed = await push.subscribe()
    assert await push.deliver(push.document("second")) == [202]
    push.hub.answer = lambda asked, form: Answer(b"no more", 500)
    for _ in range(9):
        push.it.clock.advance(DAY)
        await push.look()
        push.names.insert(0, f"day {push.it.now}")
        assert await push.deliver(push.document()) == [202]
        assert (await push.health(feed)).pushed
    push.it.clock.advance(2 * DAY)
    assert not (await push.health(feed)).pushed
    assert await push.hub.publish(push.topic, push.document("late")) == []


async def test_a_denial_ends_it_without_a_prompt_retry(push: Push) -> None:
    """5.2: a denial may come at any time, without a challenge; the answer is 2xx, and the feed is polled."""
    feed = await push.subscribe()
    await push.deliver(push.document("second"))
    (callback,) = push.hub.callbacks
    reply = await push.hub.deny(callback, push.topic, "out of\nbusiness")
    assert reply.status_code == 200
    health = await push.health(feed)
    assert (health.pushed, health.subscribed) == (False, False)
    assert health.why == "the hub denied the subscription: out of business"
    assert (await push.hub.deliver(callback, push.document("third"), "x")).status_code == 410
    for _ in range(6):
        push.it.clock.advance(DAY)
        await push.look()
    assert len(push.hub.asked_for("subscribe")) == 1
    push.it.clock.advance(1.2 * DAY)
    await push.look()
    assert len(push.hub.asked_for("subscribe")) == 2


async def test_the_last_unfollow_unsubscribes(push: Push) -> None:
    """5.1, 5.3: the hub is asked to unsubscribe and verifies it; later deliveries get 410."""
    feed = await push.subscribe()
    await push.it.feeds.subscribe(feed.id, "bob", "home")
    await push.it.following.unfollow("alice", "home", push.topic, push.it.now)
    await push.look()
    assert push.hub.asked_for("unsubscribe") == []
    await push.it.feeds.unsubscribe(feed.id, "bob", "home")
    (callback,) = push.hub.callbacks
    await push.look()
    assert [form["hub.callback"] for form in push.hub.asked_for("unsubscribe")] == [callback]
    assert push.hub.verified[-1][:2] == ("unsubscribe", 200)
    assert push.hub.callbacks == []
    assert (await push.subscriptions(feed)).callbacks == ()
    assert (await push.hub.deliver(callback, push.document("late"), "x")).status_code == 410


async def test_only_our_own_requests_end_a_subscription(push: Push) -> None:
    """5.3: only our own requests to unsubscribe are confirmed."""
    feed = await push.subscribe()
    (callback,) = push.hub.callbacks
    query = {"hub.mode": "unsubscribe", "hub.topic": push.topic, "hub.challenge": "x"}
    assert (await push.hub.http.get(callback, params=query)).status_code == 404
    assert (await push.health(feed)).subscribed


async def test_a_new_follow_subscribes_again(push: Push) -> None:
    """The next poll after the end asks the hub again."""
    feed = await push.subscribe()
    await push.it.following.unfollow("alice", "home", push.topic, push.it.now)
    await push.look()
    await push.it.following.follow("alice", "home", push.topic, push.it.now)
    await push.poll(feed)
    await push.look()
    assert len(push.hub.asked_for("subscribe")) == 2
    assert await push.deliver(push.document("second")) == [202]
    assert (await push.shown())[0] == "second"


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
async def test_signatures_of_every_method_count(push: Push, method: str) -> None:
    """7.1: the signature covers the raw body, whatever it contains."""
    push.hub.method = method
    await push.subscribe()
    body = push.document("second").replace(b"<title>Invented", "<title>Prüfung\r\n\x00".encode("latin-1"))
    assert await push.hub.publish(push.topic, body) == [202]
    assert await push.deliver(push.document("third")) == [202]
    assert (await push.shown())[0] == "third"


@pytest.mark.parametrize(
    "header",
    ["sha256=" + "0" * 64, "sha256=", "md5=" + "0" * 32, "sha1=zz", "0" * 64, "sha256", "crc=1", "sha512=" + "a" * 128],
)
async def test_a_wrong_signature_is_ignored_with_2xx(push: Push, header: str) -> None:
    """7.1: the reply doesn't tell the sender that the signature is wrong."""
    feed = await push.subscribe()
    (one,) = push.hub.subscriptions.values()
    reply = await push.hub.deliver(one.callback, push.document("forged"), None, **{"x-hub-signature": header})
    assert (reply.status_code, reply.text) == (202, "")
    await push.it.stages.run_once()
    assert await push.shown() == ["first"]
    assert not (await push.health(feed)).pushed


async def test_a_missing_signature_is_refused(push: Push) -> None:
    """7.1: with a secret, an unsigned delivery is refused."""
    await push.subscribe()
    (one,) = push.hub.subscriptions.values()
    assert (await push.hub.deliver(one.callback, push.document("unsigned"), None)).status_code == 403
    await push.it.stages.run_once()
    assert await push.shown() == ["first"]


async def test_a_delivery_is_identified_only_by_its_callback(push: Push) -> None:
    """7: `Link` headers, also those of another feed, are ignored."""
    feed = await push.subscribe()
    (one,) = push.hub.subscriptions.values()
    lies = {"link": '<https://evil.test/hub>; rel="hub", <https://victim.test/feed>; rel="self"'}
    assert (await push.hub.deliver(one.callback, push.document("second"), one.secret, **lies)).status_code == 202
    await push.it.stages.run_once()
    assert await push.shown() == ["second", "first"]
    record = await push.it.record(feed)
    assert (record.hub, record.self_url) == (push.hub.url, push.topic)


@pytest.mark.parametrize("content_type", ["text/html", "", "text/plain; charset=latin-1"])
async def test_the_content_type_may_be_wrong(push: Push, content_type: str) -> None:
    """7: hubs send Atom as text/html."""
    await push.subscribe()
    assert await push.hub.publish(push.topic, push.document("second"), content_type) == [202]
    await push.it.stages.run_once()
    assert await push.shown() == ["second", "first"]


async def test_a_hub_may_send_only_new_posts(push: Push) -> None:
    """7: posts that a diff doesn't list stay, and so does the feed's own data."""
    feed = await push.subscribe()
    before = await push.it.record(feed)
    diff = push.hub.document(push.topic, "second").replace(push.hub.links(push.topic).encode(), b"")
    assert await push.deliver(diff.replace(b"Invented", b"Diff")) == [202]
    assert await push.shown() == ["second", "first"]
    after = await push.it.record(feed)
    assert (after.hub, after.self_url, after.title) == (before.hub, before.self_url, before.title)
    await push.look()
    assert len(push.hub.requests) == 1


async def test_links_of_a_delivery_contain_no_password(push: Push) -> None:
    """A relative link in it leads to the feed's host, without the password of the feed's address."""
    push.publish()
    await push.poll(await push.it.follow(push.topic.replace("//", "//ann:hunter2@")))
    await push.look()
    body = push.document("second").replace(b"http://posts.test/", b"/")
    assert await push.deliver(body) == [202]
    texts = str(await push.it.texts())
    assert push.site.url("/second", "blog.test") in texts
    assert "hunter2" not in texts


def test_a_signature_is_over_bytes() -> None:
    """The test vector of RFC 4231, 4.3, with the key as text."""
    digest = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert signed(b"what do ya want for nothing?", "Jefe", f"sha256={digest}")
    assert signed(b"what do ya want for nothing?", "Jefe", f"SHA256={digest.upper()}")
    assert not signed(b"what do ya want for nothing!", "Jefe", f"sha256={digest}")


async def test_a_delivery_with_changed_guids_doubles_nothing(push: Push) -> None:
    """Their links and texts are those of known posts."""
    await push.subscribe()
    await push.deliver(push.publish("second"))
    body = push.document("third").replace(b"<guid isPermaLink='false'>", b"<guid isPermaLink='false'>new-")
    assert await push.deliver(body) == [202]
    assert await push.shown() == ["third", "second", "first"]
